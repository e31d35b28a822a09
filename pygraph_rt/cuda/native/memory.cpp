/* Follow a served call's inputs, take its memory, note where both are, and make the outputs that
 * share some of the memory.
 *
 * replay/inputs.py, replay/results.py and memory/allocate.py say what is meant, and do the same in
 * Python. Memory comes from the allocator that torch's own allocation function uses, which a tensor
 * of that function tells; so nothing of CUDA is needed to build this. The caller holds the lock of
 * the graph.
 */
#include <ATen/EmptyTensor.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/inductor/inductor_ops.h>
#include <torch/csrc/utils/object_ptr.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace {

using Integers = std::vector<int64_t>;

struct Memory {
    THPObjectPtr asked; /* (size, strides, dtype), for allocation functions of others */
    Integers size, stride;
    at::ScalarType dtype;
};

struct View {
    Integers size, stride;
    int64_t offset; /* elements */

    PyObject *of(const at::Tensor &base) const;
};

struct Slab {
    Memory memory;
    Integers offsets; /* bytes */
    std::vector<View> views;
    bool again; /* whether what it handed out serves again when nobody else has any of it */
    std::vector<THPObjectPtr> outputs;
    THPObjectPtr storage;
    std::vector<size_t> owners; /* while nobody else has any of it */
    int64_t stream = 0;
    uint64_t address = 0;

    void make(at::Tensor &base);
    std::vector<size_t> count();
    void forget();
};

struct Plan {
    c10::Allocator *allocator = nullptr; /* none: every call brings an allocation function */
    c10::DispatchKeySet keys;
    std::vector<Memory> pieces;
    std::vector<Slab> slabs;
    std::vector<size_t> order; /* of the pieces, and after them the slabs */
    size_t first = 0; /* of their blocks' places among the addresses */
    /* Of the slabs, from `take` to `outputs`; undefined where one serves again. */
    std::vector<at::Tensor> bases;
    size_t blocks = 0, views = 0;
};

/* A Python object around contents. */
template <typename Contents> struct Object {
    PyObject_HEAD
    Contents *contents;
};

template <typename Contents> Contents &contents_of(PyObject *self)
{
    return *reinterpret_cast<Object<Contents> *>(self)->contents;
}

PyObject *checked(PyObject *object)
{
    if (object == nullptr)
        throw python_error();
    return object;
}

PyObject *View::of(const at::Tensor &base) const
{
    return checked(
        THPVariable_Wrap(torch::inductor::_reinterpret_tensor(base, size, stride, offset)));
}

template <typename Contents>
PyObject *object(PyTypeObject *type, std::unique_ptr<Contents> contents)
{
    PyObject *const self = checked(type->tp_alloc(type, 0));
    reinterpret_cast<Object<Contents> *>(self)->contents = contents.release();
    return self;
}

template <typename Contents> void destroy(PyObject *self)
{
    PyTypeObject *const type = Py_TYPE(self);
    delete &contents_of<Contents>(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The outputs in this memory, of which the slab may then be the only owner. */
void Slab::make(at::Tensor &base)
{
    for (const View &view : views)
        outputs.emplace_back(view.of(base));
    if (!again)
        return;
    storage = checked(THPStorage_Wrap(base.storage()));
    base.reset();
    owners = count();
}

/* How many have the memory, and each of the outputs, in Python and in C++. */
std::vector<size_t> Slab::count()
{
    std::vector<size_t> owners;
    owners.reserve(2 * outputs.size() + 2);
    for (THPObjectPtr &output : outputs) {
        owners.push_back(static_cast<size_t>(Py_REFCNT(output.get())));
        owners.push_back(THPVariable_Unpack(output.get()).use_count());
    }
    owners.push_back(static_cast<size_t>(Py_REFCNT(storage.get())));
    owners.push_back(THPStorage_Unpack(storage.get()).use_count());
    return owners;
}

void Slab::forget()
{
    const std::vector<THPObjectPtr> old = std::move(outputs);
    const THPObjectPtr memory = std::move(storage);
    outputs.clear();
    owners.clear();
}

/* The items of a tuple, of which there are `count` (any number, where it is negative). */
PyObject **items(PyObject *tuple, Py_ssize_t count)
{
    TORCH_CHECK_TYPE(PyTuple_Check(tuple), "a plan is made of tuples");
    TORCH_CHECK_TYPE(count < 0 || PyTuple_GET_SIZE(tuple) == count, "a tuple of another length");
    return &PyTuple_GET_ITEM(tuple, 0);
}

int64_t integer(PyObject *object)
{
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred())
        throw python_error();
    return value;
}

Integers integers(PyObject *tuple)
{
    PyObject **const found = items(tuple, -1);
    Integers values;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        values.push_back(integer(found[i]));
    return values;
}

Memory memory(PyObject *asked)
{
    PyObject **const parts = items(asked, 3);
    TORCH_CHECK_TYPE(THPDtype_Check(parts[2]), "memory is (size, strides, dtype)");
    Py_INCREF(asked);
    return {THPObjectPtr(asked), integers(parts[0]), integers(parts[1]),
            reinterpret_cast<THPDtype *>(parts[2])->scalar_type};
}

View view(PyObject *const *parts)
{
    return {integers(parts[0]), integers(parts[1]), integer(parts[2])};
}

Slab slab(PyObject *tuple)
{
    PyObject **const parts = items(tuple, 4);
    Slab made{memory(parts[0]), integers(parts[1]), {}, parts[3] == Py_True, {}};
    PyObject **const views = items(parts[2], -1);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts[2]); i++)
        made.views.push_back(view(items(views[i], 3)));
    return made;
}

/* Plan(specimen, pieces, first, slabs, order); see NativeAllocator. */
PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *)
{
    HANDLE_TH_ERRORS
    PyObject *specimen, *pieces, *slabs, *order;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(arguments, "OO!nO!O", &specimen, &PyTuple_Type, &pieces, &first,
                          &PyTuple_Type, &slabs, &order))
        return nullptr;
    TORCH_CHECK_VALUE(first >= 0, "a place is not negative");
    auto contents = std::make_unique<Plan>();
    if (specimen != Py_None) {
        TORCH_CHECK_TYPE(THPVariable_Check(specimen), "a specimen is a tensor");
        const at::Tensor &tensor = THPVariable_Unpack(specimen);
        TORCH_CHECK_VALUE(tensor.is_cpu() || tensor.is_cuda(), "a device of another kind");
        contents->allocator = tensor.storage().allocator();
        contents->keys = c10::DispatchKeySet(
            tensor.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pieces); i++)
        contents->pieces.push_back(memory(PyTuple_GET_ITEM(pieces, i)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slabs); i++) {
        contents->slabs.push_back(slab(PyTuple_GET_ITEM(slabs, i)));
        contents->blocks += contents->slabs.back().offsets.size();
        contents->views += contents->slabs.back().views.size();
    }
    std::vector<bool> taken(contents->pieces.size() + contents->slabs.size());
    for (const int64_t i : integers(order)) {
        const auto step = static_cast<size_t>(i);
        TORCH_CHECK_VALUE(step < taken.size() && !taken[step], "the order is a permutation");
        taken[step] = true;
        contents->order.push_back(step);
    }
    TORCH_CHECK_VALUE(contents->order.size() == taken.size(), "the order is a permutation");
    contents->first = static_cast<size_t>(first);
    return object(type, std::move(contents));
    END_HANDLE_TH_ERRORS
}

at::Tensor take_one(const Plan &plan, Memory &memory, PyObject *allocate)
{
    if (allocate == Py_None)
        return at::Tensor(at::detail::empty_strided_generic(
            memory.size, memory.stride, plan.allocator, plan.keys, memory.dtype));
    THPObjectPtr made(checked(PyObject_Call(allocate, memory.asked.get(), nullptr)));
    TORCH_CHECK_TYPE(THPVariable_Check(made.get()), "an allocation function returns tensors");
    return THPVariable_Unpack(made.get());
}

uint64_t address(const at::Tensor &tensor)
{
    return reinterpret_cast<uint64_t>(tensor.data_ptr());
}

/* A writable buffer of addresses, let go of at the end of its scope. */
struct Addresses {
    Py_buffer buffer;

    explicit Addresses(PyObject *array)
    {
        if (PyObject_GetBuffer(array, &buffer, PyBUF_WRITABLE) != 0)
            throw python_error();
    }
    ~Addresses() { PyBuffer_Release(&buffer); }
    Addresses(const Addresses &) = delete;
    Addresses &operator=(const Addresses &) = delete;

    uint64_t *at(size_t first, size_t count) const
    {
        const size_t room = static_cast<size_t>(buffer.len) / sizeof(uint64_t);
        TORCH_CHECK_VALUE(count <= room && first <= room - count, "too few places for addresses");
        return static_cast<uint64_t *>(buffer.buf) + first;
    }
};

/* take(addresses, allocate, stream): the tensors of the pieces. `allocate` is called for
 * each of them, or None for the specimen's allocator. An error leaves the addresses as they were.
 */
PyObject *take(PyObject *self, PyObject *arguments)
{
    HANDLE_TH_ERRORS
    PyObject *array, *allocate;
    long long stream;
    if (!PyArg_ParseTuple(arguments, "OOL", &array, &allocate, &stream))
        return nullptr;
    Plan &plan = contents_of<Plan>(self);
    TORCH_CHECK_TYPE(allocate != Py_None || plan.allocator != nullptr, "there is no allocator");
    const Addresses addresses(array);
    const size_t count = plan.pieces.size();
    uint64_t *const of_pieces = addresses.at(plan.first, count + plan.blocks);
    uint64_t *of_blocks = of_pieces + count;

    std::vector<at::Tensor> made(count), bases(plan.slabs.size());
    for (const size_t step : plan.order) {
        if (step < count) {
            made[step] = take_one(plan, plan.pieces[step], allocate);
            continue;
        }
        Slab &slab = plan.slabs[step - count];
        if (!slab.owners.empty() && slab.stream == stream && slab.count() == slab.owners)
            continue;
        slab.forget();
        at::Tensor &base = bases[step - count] = take_one(plan, slab.memory, allocate);
        slab.stream = stream;
        slab.address = address(base);
    }

    THPObjectPtr results(checked(PyList_New(static_cast<Py_ssize_t>(count))));
    for (size_t i = 0; i < count; i++) {
        const uint64_t where = address(made[i]);
        PyList_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i),
                        checked(THPVariable_Wrap(std::move(made[i]))));
        of_pieces[i] = where;
    }
    for (const Slab &slab : plan.slabs)
        for (const int64_t offset : slab.offsets)
            *of_blocks++ = slab.address + static_cast<uint64_t>(offset);
    plan.bases = std::move(bases);
    return results.release();
    END_HANDLE_TH_ERRORS
}

/* outputs(): a list of the views of all slabs that `take` took; it lets go of them. */
PyObject *outputs(PyObject *self, PyObject *)
{
    HANDLE_TH_ERRORS
    Plan &plan = contents_of<Plan>(self);
    std::vector<at::Tensor> bases = std::move(plan.bases);
    plan.bases.clear();
    TORCH_CHECK_VALUE(bases.size() == plan.slabs.size(), "take comes first");
    THPObjectPtr results(checked(PyList_New(static_cast<Py_ssize_t>(plan.views))));
    Py_ssize_t place = 0;
    for (size_t i = 0; i < bases.size(); i++) {
        Slab &slab = plan.slabs[i];
        if (bases[i].defined())
            slab.make(bases[i]);
        for (THPObjectPtr &output : slab.outputs) {
            Py_INCREF(output.get());
            PyList_SET_ITEM(results.get(), place++, output.get());
        }
        if (!slab.again)
            slab.outputs.clear();
    }
    return results.release();
    END_HANDLE_TH_ERRORS
}

/* forget(): let go of memory without outputs. */
PyObject *forget(PyObject *self, PyObject *)
{
    Plan &plan = contents_of<Plan>(self);
    plan.bases.clear();
    for (Slab &slab : plan.slabs)
        slab.forget();
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"take", take, METH_VARARGS, nullptr},
    {"outputs", outputs, METH_NOARGS, nullptr},
    {"forget", forget, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "pygraph_memory", nullptr, -1, nullptr};

/* An object of as many contents as there are items in the tuple that is its argument. */
template <typename Item, Item (*read)(PyObject *)>
PyObject *make_each(PyTypeObject *type, PyObject *arguments, PyObject *)
{
    HANDLE_TH_ERRORS
    PyObject *given;
    if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &given))
        return nullptr;
    auto contents = std::make_unique<std::vector<Item>>();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++)
        contents->push_back(read(PyTuple_GET_ITEM(given, i)));
    return object(type, std::move(contents));
    END_HANDLE_TH_ERRORS
}

/* Views of tensors in lists: which list, which place there, and the view. */
struct Taken {
    size_t source;
    Py_ssize_t place;
    View view;
};

using Views = std::vector<Taken>;

const size_t SOURCES = 2;

/* Of Views(((source, place, size, strides, offset), ...)) */
Taken read_view(PyObject *given)
{
    PyObject **const parts = items(given, 5);
    const int64_t source = integer(parts[0]), place = integer(parts[1]);
    TORCH_CHECK_VALUE(source >= 0 && static_cast<size_t>(source) < SOURCES && place >= 0,
                      "there is no such source or place");
    return {static_cast<size_t>(source), place, view(parts + 2)};
}

/* self(first, second): a list of the views of tensors in these lists. */
PyObject *call_views(PyObject *self, PyObject *arguments, PyObject *)
{
    HANDLE_TH_ERRORS
    PyObject *sources[SOURCES];
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, &sources[0], &PyList_Type, &sources[1]))
        return nullptr;
    const Views &taken = contents_of<Views>(self);
    THPObjectPtr results(checked(PyList_New(static_cast<Py_ssize_t>(taken.size()))));
    for (size_t i = 0; i < taken.size(); i++) {
        PyObject *const source = sources[taken[i].source];
        TORCH_CHECK_INDEX(taken[i].place < PyList_GET_SIZE(source), "there is no such tensor");
        PyObject *const base = PyList_GET_ITEM(source, taken[i].place);
        TORCH_CHECK_TYPE(THPVariable_Check(base), "a view is of a tensor");
        PyList_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i),
                        taken[i].view.of(THPVariable_Unpack(base)));
    }
    return results.release();
    END_HANDLE_TH_ERRORS
}

struct Input {
    Py_ssize_t argument;
    size_t place;   /* among the addresses */
    uint64_t align; /* its alignment class */
    Integers size, stride;
    at::ScalarType dtype;
    c10::Device device;
    uint64_t known; /* where it was */
    uint64_t now;

    bool fits(const at::Tensor &tensor) const;
};

using Inputs = std::vector<Input>;

uint64_t alignment_class(uint64_t address)
{
    const uint64_t low = address & 255;
    return low ? low & -low : 256;
}

/* Whether a tensor has the layout, and its elements are what its memory holds; strides along a
 * single element say nothing. */
bool Input::fits(const at::Tensor &tensor) const
{
    if (tensor.layout() != at::kStrided || tensor.device() != device ||
        tensor.scalar_type() != dtype || tensor.is_conj() || tensor.is_neg() ||
        tensor.sizes() != c10::IntArrayRef(size))
        return false;
    const c10::IntArrayRef steps = tensor.strides();
    for (size_t i = 0; i < size.size(); i++)
        if (size[i] != 1 && steps[i] != stride[i])
            return false;
    return true;
}

/* Of Inputs(((argument, place, alignment class, (size, strides, dtype, device)), ...)) */
Input read_input(PyObject *given)
{
    PyObject **const parts = items(given, 4), **const layout = items(parts[3], 4);
    const int64_t argument = integer(parts[0]), place = integer(parts[1]);
    TORCH_CHECK_VALUE(argument >= 0 && place >= 0, "a place is not negative");
    TORCH_CHECK_TYPE(THPDtype_Check(layout[2]) && THPDevice_Check(layout[3]),
                     "an input has a dtype and is on a device");
    Integers size = integers(layout[0]), stride = integers(layout[1]);
    TORCH_CHECK_VALUE(size.size() == stride.size(), "a stride for each dimension");
    return {static_cast<Py_ssize_t>(argument), static_cast<size_t>(place),
            static_cast<uint64_t>(integer(parts[2])), std::move(size), std::move(stride),
            reinterpret_cast<THPDtype *>(layout[2])->scalar_type,
            reinterpret_cast<THPDevice *>(layout[3])->device, 0, 0};
}


/* self(args, addresses): write where the inputs among the `args` are, those that moved. False, and
 * nothing is written, where one is aligned or laid out in another way.
 *
 * Tensors lie anywhere, and little of them is in a cache. So each level of pointers is fetched for
 * all of them before it is followed. */
PyObject *call_inputs(PyObject *self, PyObject *arguments, PyObject *)
{
    HANDLE_TH_ERRORS
    PyObject *args, *array;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyList_Type, &args, &array))
        return nullptr;
    const Addresses addresses(array);
    Inputs &inputs = contents_of<Inputs>(self);
    for (const Input &input : inputs) {
        TORCH_CHECK_INDEX(input.argument < PyList_GET_SIZE(args), "there is no such argument");
        __builtin_prefetch(PyList_GET_ITEM(args, input.argument));
    }
    for (const Input &input : inputs) {
        PyObject *const argument = PyList_GET_ITEM(args, input.argument);
        TORCH_CHECK_TYPE(THPVariable_Check(argument), "an input is a tensor");
        const auto *const tensor = reinterpret_cast<const char *>(
            THPVariable_Unpack(argument).unsafeGetTensorImpl());
        for (size_t line = 0; line < sizeof(c10::TensorImpl); line += 64)
            __builtin_prefetch(tensor + line);
    }
    for (const Input &input : inputs)
        __builtin_prefetch(THPVariable_Unpack(PyList_GET_ITEM(args, input.argument))
                               .unsafeGetTensorImpl()
                               ->unsafe_storage()
                               .unsafeGetStorageImpl());
    for (Input &input : inputs) {
        const at::Tensor &tensor = THPVariable_Unpack(PyList_GET_ITEM(args, input.argument));
        if (!input.fits(tensor))
            Py_RETURN_FALSE;
        input.now = address(tensor);
        if (input.now != input.known && alignment_class(input.now) != input.align)
            Py_RETURN_FALSE;
    }
    for (Input &input : inputs) {
        if (input.now == input.known)
            continue;
        *addresses.at(input.place, 1) = input.now;
        input.known = input.now;
    }
    Py_RETURN_TRUE;
    END_HANDLE_TH_ERRORS
}

/* Give the module a type of objects that `make` makes; `use` is what else can be done with them. */
template <typename Contents>
bool add(PyObject *module, const char *name, newfunc make, PyType_Slot use)
{
    PyType_Slot slots[] = {
        {Py_tp_new, reinterpret_cast<void *>(make)},
        {Py_tp_dealloc, reinterpret_cast<void *>(destroy<Contents>)},
        use,
        {0, nullptr},
    };
    PyType_Spec spec = {name, sizeof(Object<Contents>), 0, Py_TPFLAGS_DEFAULT, slots};
    PyObject *const type = PyType_FromSpec(&spec);
    if (type != nullptr && PyModule_AddObject(module, std::strrchr(name, '.') + 1, type) == 0)
        return true;
    Py_XDECREF(type);
    return false;
}

} // namespace

PyMODINIT_FUNC PyInit_pygraph_memory()
{
    THPObjectPtr module(PyModule_Create(&definition));
    const auto call = [](ternaryfunc function) {
        return PyType_Slot{Py_tp_call, reinterpret_cast<void *>(function)};
    };
    if (!module ||
        !add<Plan>(module.get(), "pygraph_memory.Plan", make, {Py_tp_methods, methods}) ||
        !add<Views>(module.get(), "pygraph_memory.Views", make_each<Taken, read_view>,
                    call(call_views)) ||
        !add<Inputs>(module.get(), "pygraph_memory.Inputs", make_each<Input, read_input>,
                     call(call_inputs)))
        return nullptr;
    return module.release();
}
