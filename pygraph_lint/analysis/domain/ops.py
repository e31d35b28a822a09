"""Tables about torch: which calls make tensors, where, of which kind; which methods only tensors
have.
"""

from __future__ import annotations

# torch.<name> that creates a tensor on the default device unless `device=` is given.
FACTORIES = frozenset(
    """
        arange zeros ones empty full eye linspace logspace range rand randn randint randperm
        tril_indices triu_indices hann_window hamming_window blackman_window bartlett_window
        kaiser_window empty_strided complex_ones normal cartesian_indices
    """.split()
)
FREQUENCIES = frozenset(("fft.fftfreq", "fft.rfftfreq"))  # factories, too
# Only factories when they get no tensor.
INT_FACTORIES = frozenset(("randint", "randperm", "tril_indices", "triu_indices"))
FACTORIES_LIKE = frozenset(
    "zeros_like ones_like empty_like full_like rand_like randn_like randint_like".split()
)
NEW_FACTORIES = frozenset(["new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "new"])
FROM_DATA = frozenset("tensor as_tensor from_numpy asarray frombuffer scalar_tensor Tensor".split())
TYPED_CONSTRUCTORS = frozenset(
    """
        FloatTensor LongTensor IntTensor BoolTensor DoubleTensor HalfTensor ByteTensor Tensor
        BFloat16Tensor
    """.split()
)
RANDOM_FACTORIES = frozenset(
    ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "normal")
)
# Draws of Python that Dynamo takes along: the number stays open, so a branch on it is a break.
TRACED_DRAWS = frozenset(("random.uniform", "random.randint", "random.randrange"))
RANDOM_METHODS = frozenset(("uniform_", "normal_", "bernoulli_", "exponential_", "random_"))

# torch.<name> whose result is no tensor.
NOT_TENSORS: dict[str, str] = {
    **dict.fromkeys(
        """
            is_tensor is_grad_enabled is_floating_point is_complex is_storage
            is_inference_mode_enabled is_autocast_enabled is_autocast_cpu_enabled
            are_deterministic_algorithms_enabled is_nonzero_static get_num_threads
            get_float32_matmul_precision can_cast is_warn_always_enabled numel initial_seed
            is_conj is_neg is_signed is_same_size is_anomaly_enabled is_inference
            is_autocast_cache_enabled get_deterministic_debug_mode get_num_interop_threads
        """.split(),
        "number",
    ),
    **dict.fromkeys(
        """
            promote_types result_type get_default_dtype get_autocast_gpu_dtype
            get_autocast_cpu_dtype get_autocast_dtype
        """.split(),
        "dtype",
    ),
    **dict.fromkeys(["device", "get_default_device"], "device"),
    **dict.fromkeys(
        """
            Size dtype layout memory_format finfo iinfo no_grad enable_grad
            inference_mode set_grad_enabled autocast jit load save manual_seed seed set_rng_state
            use_deterministic_algorithms set_default_dtype set_default_device set_num_threads
            set_float32_matmul_precision Stream Event broadcast_shapes vmap func fx export
            set_printoptions typename get_device_module fork wait import_ir_module
            set_anomaly_enabled set_flush_denormal set_num_interop_threads set_warn_always
            set_default_tensor_type set_deterministic_debug_mode clear_autocast_cache
        """.split(),
        "other",
    ),
    "Generator": "generator",
}
DTYPES: dict[str, str] = {
    **dict.fromkeys("float float16 float32 float64 half double bfloat16".split(), "float"),
    **dict.fromkeys("float8_e4m3fn float8_e5m2".split(), "float"),
    **dict.fromkeys("int int8 int16 int32 int64 long short".split(), "int"),
    **dict.fromkeys("uint8 uint16 uint32 uint64".split(), "int"),
    "bool": "bool",
    **dict.fromkeys(["complex64", "complex128", "cfloat", "cdouble"], "complex"),
}
# Namespaces whose functions all return tensors (or tuples of them).
TENSOR_NAMESPACES = tuple(
    f"torch.{name}." for name in "nn.functional linalg fft special masked".split()
)
# ... and namespaces whose calls never do.
OTHER_NAMESPACES = tuple(
    f"torch.{name}."
    for name in """
        cuda backends compiler _dynamo jit onnx utils distributed autograd overrides nn.init
        nn.utils.parametrize nn.utils.parametrizations version xpu mps hub profiler library amp
        export fx _C accelerator nested sparse optim testing multiprocessing storage package
        quantization ao _logging _inductor _subclasses
    """.split()
)
# Attributes and calls of torch's own that a compiled region may fold.
FOLDED_TRUE = frozenset(
    f"torch.{name}.is_compiling"
    for name in ("compiler", "_dynamo", "_dynamo.external_utils", "_utils")
) | {"torch.compiler.is_dynamo_compiling"}
FOLDED_FALSE = frozenset(
    f"torch.{name}"
    for name in """
        jit.is_scripting jit.is_tracing onnx.is_in_onnx_export compiler.is_exporting
        _C._get_tracing_state fx._symbolic_trace.is_fx_tracing
        overrides.is_tensor_method_or_property
    """.split()
) | {"typing.TYPE_CHECKING"}
# Project helpers by these names say the same, whatever they are imported from.
FOLDED_TRUE_NAMES = frozenset(
    ("is_torchdynamo_compiling", "is_torchdynamo_tracing", "is_torch_compiling", "is_compiling")
)
FOLDED_FALSE_NAMES = frozenset(
    "is_torchdynamo_exporting is_torch_fx_proxy is_jit_tracing is_scripting _is_tracing".split()
)

# Functions and methods whose result is a boolean tensor.
BOOL_OPS = frozenset(
    """
        isnan isinf isfinite isneginf isposinf logical_and logical_or logical_not logical_xor eq
        ne lt le gt ge greater greater_equal less less_equal not_equal isclose isin isreal signbit
    """.split()
)
FINITE_OPS = frozenset(("isnan", "isinf", "isfinite", "isneginf", "isposinf"))
INT_OPS = frozenset("argmax argmin argsort searchsorted bucketize count_nonzero bincount".split())
# Reductions: 0-d when called with no dim.
REDUCTIONS = frozenset(
    """
        sum mean max min amax amin prod any all norm std var median logsumexp argmax argmin nansum
        nanmean count_nonzero
    """.split()
)
# Arguments after the first are sizes.
SIZED = frozenset("view reshape expand repeat unflatten interpolate pad tile narrow unfold".split())
# Accept Python numbers alone, and then make a host tensor of them.
OF_NUMBERS = frozenset(
    ("div", "true_divide", "floor_divide", "mul", "add", "sub", "remainder", "fmod")
)
# With a dim they return (values, indices).
PAIRS = frozenset(
    ("max", "min", "median", "mode", "kthvalue", "sort", "topk", "cummax", "cummin", "nanmedian")
)
PAIRS_ALWAYS = frozenset(
    ("sort", "topk", "kthvalue", "cummax", "cummin", "mode", "frexp", "slogdet", "aminmax")
)
LISTS = frozenset(
    """
        split chunk unbind tensor_split split_with_sizes hsplit vsplit dsplit meshgrid
        broadcast_tensors unsafe_chunk unsafe_split align_tensors
    """.split()
)
TUPLES = {
    **dict.fromkeys(("qr", "eigh", "eig", "lu", "std_mean", "var_mean", "histogram", "gru"), 2),
    **dict.fromkeys(("multi_head_attention_forward", "lobpcg", "triangular_solve"), 2),
    **dict.fromkeys(("max_pool2d_with_indices", "adaptive_max_pool2d_with_indices"), 2),
    **dict.fromkeys(("svd", "lstm"), 3),
    "lstsq": 4,
}
# The same dtype comes out as went in.
KEEP_DTYPE = frozenset(
    """
        view reshape permute transpose squeeze unsqueeze expand expand_as repeat flatten
        contiguous clone detach flip roll narrow select index_select gather to cat stack concat t
        T mT masked_select unfold tile movedim swapaxes repeat_interleave broadcast_to type_as_
        masked_fill where scatter pad cumsum take_along_dim tril triu index_fill cuda cpu
        pin_memory requires_grad_ view_as reshape_as rot90 logical_and logical_or split chunk
        unbind zeros_like ones_like empty_like new_zeros_ new_ones_ diagonal narrow_copy unflatten
        bitwise_and bitwise_or bitwise_not bitwise_xor masked_fill_ fill_ zero_ index_put_ copy_
        squeeze_ unsqueeze_ sort max min amax amin clamp abs neg roll flipud fliplr hstack vstack
        dstack as_strided
    """.split()
)

# Methods of tensors that return something else.
NUMBER_METHODS = frozenset(
    """
        size dim numel nelement ndimension stride data_ptr element_size is_floating_point
        is_complex is_contiguous storage_offset get_device is_signed is_shared is_pinned has_names
        is_set_to __len__ is_conj is_inference is_coalesced q_scale q_zero_point dense_dim
        sparse_dim
    """.split()
)
NUMBER_ATTRIBUTES = frozenset(
    """
        ndim itemsize nbytes requires_grad is_cuda is_leaf is_sparse is_quantized is_meta is_cpu
        is_nested output_nr
    """.split()
)
OTHER_METHODS = frozenset(
    """
        register_hook untyped_storage storage storage_type type_ names refine_names rename
        register_post_accumulate_grad_hook share_memory_ retain_grad
    """.split()
)
TENSOR_ATTRIBUTES = frozenset(("T", "mT", "H", "mH", "data", "grad", "real", "imag"))

# Methods and attributes that show that a value is a tensor (numpy arrays are told apart by their
# own evidence).
TENSOR_ONLY_METHODS = frozenset(
    """
        unsqueeze view permute contiguous masked_fill masked_fill_ detach cpu cuda numel dim
        expand expand_as unsqueeze_ index_select scatter scatter_ scatter_add scatter_add_ gather
        new_zeros new_ones new_full new_empty new_tensor matmul bmm softmax log_softmax sigmoid
        tanh_ relu_ chunk unbind masked_scatter masked_scatter_ index_add_ index_copy_ index_fill_
        type_as argmax_ cumprod narrow addmm baddbmm mul_ add_ sub_ div_ copy_ clamp clamp_
        clamp_min clamp_max rsqrt pow_ logical_not logical_and logical_or view_as requires_grad_
        tolist_ unfold roll flip movedim repeat_interleave masked_select transpose_ squeeze_ size
        permute_ bfloat16 half float long new_empty_strided triu tril is_floating_point amax amin
        nan_to_num logsumexp index_put index_put_ uniform_ normal_ zero_ fill_ bernoulli_ isfinite
        isinf isnan
    """.split()
)
# Of these, those that no module, distribution or container of tensors has either: who calls one
# has a tensor, whatever else is known.
CERTAIN_METHODS = frozenset(
    """
        unsqueeze permute masked_fill expand_as index_select scatter_add new_zeros new_ones
        new_full new_empty new_tensor matmul bmm log_softmax type_as cumprod addmm baddbmm
        clamp_min clamp_max rsqrt logical_not logical_and logical_or view_as masked_select amax
        amin nan_to_num logsumexp index_put isfinite isinf isnan mul div sqrt reciprocal square
        addcmul addcdiv lerp cummax cummin cumsum
    """.split()
) | {f"{name}_" for name in ("add sub mul div copy clamp masked_fill index_add zero fill".split())}
# The same, where a number or nothing comes first: what stands for several array libraries is given
# the array there.
CERTAIN_OF_NUMBERS = frozenset(
    """
        softmax scatter scatter_ scatter_add_ scatter_reduce scatter_reduce_ index_put_ index_fill
        index_fill_ index_copy index_copy_ index_add masked_scatter masked_scatter_ fill_diagonal_
        unbind topk kthvalue repeat_interleave unflatten clamp clamp_ tril triu narrow diag_embed
        multinomial uniform_ normal_ bernoulli_ exponential_ is_floating_point sigmoid erf
        lgamma log1p expm1
    """.split()
)
# torch functions whose first two arguments are tensors.
OF_TWO_TENSORS = frozenset(
    f"torch.{name}"
    for name in """
        matmul bmm mm mv dot vdot inner outer cdist minimum maximum atan2 logaddexp cross kron
        allclose equal isclose nn.functional.mse_loss nn.functional.l1_loss
        nn.functional.smooth_l1_loss nn.functional.cross_entropy nn.functional.nll_loss
        nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
        nn.functional.kl_div nn.functional.cosine_similarity nn.functional.pairwise_distance
        nn.functional.linear nn.functional.huber_loss linalg.solve
    """.split()
)
# Of tensors these take no argument: whose method does is something else, as a flow or a transform.
WITHOUT_ARGUMENTS = frozenset(
    """
        inverse detach numel dim exp log sqrt rsqrt abs sin cos tan tanh sigmoid neg square
        reciprocal isnan isinf isfinite t sign floor ceil trunc erf lgamma digamma
    """.split()
)
# With a tensor as first argument no methods of tensors, but functions of what stands for several
# array libraries: ``backend.any(x > 0)``.
OF_ARRAYS = (REDUCTIONS | FINITE_OPS | WITHOUT_ARGUMENTS) - {"numel", "dim", "inverse"}
# Methods of Python's own objects, of modules, optimizers and loggers: their names say nothing.
COMMON_METHODS = frozenset(
    name for kind in (str, dict, list, set, bytes, int, float, object) for name in dir(kind)
) | frozenset(
    """
        forward parameters named_parameters modules children state_dict load_state_dict train eval
        to step zero_grad log info warn warning debug error exception close open read write flush
        run start stop save load reset build register create apply call main scale unscale_
    """.split()
)
# Methods of tensors, where they get a tensor: arrays have some of them, too.
PRODUCTS = frozenset(("dot", "mm", "mv", "matmul", "bmm", "vdot", "inner", "outer"))
TENSOR_ONLY_ATTRIBUTES = frozenset("shape is_cuda is_mps ndim requires_grad grad_fn mT".split())
# What NumPy's arrays have, too.
OF_NUMPY_ARRAYS = frozenset(
    """
        shape ndim size dtype T item tolist view dot sum mean std max min argmax argmin reshape
        transpose flatten squeeze copy round cumsum cumprod repeat nonzero any all swapaxes diagonal
    """.split()
)
# Operations that work element by element: an operand may be one number on the host.
BY_ELEMENT = frozenset(
    """
        add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow
        atan2 arctan2 max min maximum minimum fmax fmin clamp clip eq ne lt le gt ge logical_and
        logical_or logical_xor copysign hypot xlogy float_power
    """.split()
)
# Methods that other objects than tensors have too: modules, lists, texts, dictionaries.
SHARED_METHODS = frozenset(
    """
        apply_ backward bfloat16 bool byte char count cpu cuda double float format get half index
        indices int is_pinned is_shared long new register_hook share_memory_ short split storage
        storage_offset type type_as_ values view zero_grad
    """.split()
)
# Methods that read values: on a value nobody knows they still are evidence inside a module's
# forward.
READING_METHODS = frozenset(("item", "tolist", "cpu", "numpy"))

CAST_METHODS: dict[str, str] = {
    **dict.fromkeys(("float", "half", "double", "bfloat16"), "float"),
    **dict.fromkeys(("long", "int", "short", "char", "byte"), "int"),
    "bool": "bool",
}

NOT_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in """
        Parameter Buffer Module UninitializedParameter parameter.Parameter functional init
    """.split()
)
PARAMETERS = NOT_LAYERS - {"torch.nn.Module", "torch.nn.functional", "torch.nn.init"}

# Bases outside the project that are torch modules.
MODULE_BASES = frozenset(
    """
        torch.nn.Module torch.nn.modules.module.Module torch.nn.Sequential torch.nn.ModuleList
        torch.nn.Linear torch.nn.Embedding torch.nn.Conv1d torch.nn.Conv2d torch.nn.Conv3d
        torch.nn.LayerNorm torch.nn.BatchNorm2d torch.nn.GroupNorm
        torch.nn.TransformerEncoderLayer torch.nn.TransformerDecoderLayer
        torch.nn.MultiheadAttention torch.jit.ScriptModule pytorch_lightning.LightningModule
        lightning.LightningModule lightning.pytorch.LightningModule transformers.PreTrainedModel
        transformers.modeling_utils.PreTrainedModel diffusers.ModelMixin
        diffusers.models.modeling_utils.ModelMixin
    """.split()
)
MODULE_BASE_PREFIXES = ("torch.nn.modules.",)
# Classes of torch that subclass nothing of interest although their prefix says otherwise.
TENSOR_TYPES: dict[str, str] = {
    "torch.Tensor": "",
    **dict.fromkeys(("torch.nn.Parameter", "torch.nn.parameter.Parameter"), "float"),
    **dict.fromkeys(("torch.FloatTensor", "torch.HalfTensor", "torch.DoubleTensor"), "float"),
    "torch.cuda.FloatTensor": "float",
    **dict.fromkeys(("torch.LongTensor", "torch.IntTensor", "torch.cuda.LongTensor"), "int"),
    "torch.ByteTensor": "int",
    "torch.BoolTensor": "bool",
}
# Wrappers that end or bar a region.
DISABLERS = ("torch.compiler.disable", "torch._dynamo.disable")
REGION_ENDS = (
    frozenset(DISABLERS)
    | frozenset(
        f"torch.{name}"
        for name in """
        compiler.allow_in_graph _dynamo.allow_in_graph library.custom_op library.triton_op
        compiler.assume_constant_result _dynamo.assume_constant_result _dynamo.skip
        compiler.substitute_in_graph library.register_fake _dynamo.nonstrict_trace_
        compiler.nonstrict_trace_
    """.split()
    )
    | {"triton.jit", "numba.jit", "numba.njit", "numba.vectorize", "numba.guvectorize"}
)
# Context managers that a compiled region cannot enter.
UNTRACED_CONTEXTS = frozenset(
    ("torch.backends.cudnn.flags", "torch.backends.mkldnn.flags", "torch.backends.mkl.verbose")
)
LOCKS = frozenset(
    f"threading.{name}" for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")
)
# Methods that only modules have, and that torch.compile cannot trace.
HOOK_METHODS = frozenset(
    f"register_{name}_hook"
    for name in "forward forward_pre full_backward full_backward_pre".split()
)
COMPILERS = frozenset(("torch.compile", "torch._dynamo.optimize", "pygraph_rt.compile"))
GRAPHERS = frozenset(
    ("torch.cuda.make_graphed_callables", "torch.cuda.graphs.make_graphed_callables")
)
# Methods of nn.Module that give the module itself.
GIVE_THE_MODULE = frozenset(
    "to cuda cpu eval train half float double bfloat16 requires_grad_ to_empty".split()
)
CAPTURES = frozenset(("torch.cuda.graph", "torch.cuda.graphs.graph"))
# Methods of torch.Tensor that have a twin which works in place, ``add`` and ``add_``.
_WITH_TWIN = frozenset(
    """
        abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin
        arcsinh arctan arctan2 arctanh as_strided asin asinh atan atan2 atanh baddbmm bernoulli
        bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil
        clamp clamp_max clamp_min clip conj_physical copysign cos cosh cumprod cumsum deg2rad
        detach digamma div divide eq erf erfc erfinv exp exp2 expm1 fix float_power floor
        floor_divide fmod frac gcd ge greater greater_equal gt heaviside hypot i0 igamma igammac
        index_add index_copy index_fill index_put index_reduce lcm ldexp le lerp less less_equal
        lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor logit lt
        masked_fill masked_scatter mul multiply mvlgamma nan_to_num ne neg negative nextafter
        not_equal polygamma pow put rad2deg reciprocal relu remainder renorm resize resize_as
        round rsqrt scatter scatter_add scatter_reduce sgn sigmoid sign sin sinc sinh sqrt square
        squeeze sub subtract swapaxes swapdims t tan tanh transpose tril triu true_divide trunc
        unsqueeze xlogy
    """.split()
)
# Every public method of torch.Tensor.
TENSOR_METHODS = (
    _WITH_TWIN
    | {f"{name}_" for name in _WITH_TWIN}
    | frozenset(
        """
        adjoint all allclose amax amin aminmax angle any apply_ argmax argmin argsort argwhere
        as_strided_scatter as_subclass backward bfloat16 bincount bmm bool broadcast_to byte
        cauchy_ ccol_indices cdouble cfloat chalf char cholesky cholesky_inverse cholesky_solve
        chunk clone coalesce col_indices conj const_data_ptr contiguous copy_ corrcoef
        count_nonzero cov cpu cross crow_indices cuda cummax cummin data_ptr dense_dim dequantize
        det diag diag_embed diagflat diagonal diagonal_scatter diff dim dim_order dist dot double
        dsplit eig element_size equal expand expand_as exponential_ fill_ fill_diagonal_ flatten
        flip fliplr flipud float fmax fmin frexp gather geometric_ geqrf ger get_device half
        hardshrink hash_tensor histc histogram hsplit index index_select indices inner int
        int_repr inverse ipu is_coalesced is_complex is_conj is_contiguous is_distributed
        is_floating_point is_inference is_neg is_nonzero is_pinned is_same_size is_set_to
        is_shared is_signed isclose isfinite isinf isnan isneginf isposinf isreal istft item kron
        kthvalue log_normal_ log_softmax logaddexp logaddexp2 logcumsumexp logdet logsumexp long
        lstsq lu lu_solve map2_ map_ masked_select matmul matrix_exp matrix_power max maximum mean
        median min minimum mm mode module_load moveaxis movedim msort mtia multinomial mv nanmean
        nanmedian nanquantile nansum narrow narrow_copy ndimension nelement new new_empty
        new_empty_strided new_full new_ones new_tensor new_zeros nonzero nonzero_static norm
        normal_ numel numpy orgqr ormqr outer permute pin_memory pinverse positive prelu prod
        q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qr
        qscheme quantile random_ ravel record_stream register_hook
        register_post_accumulate_grad_hook reinforce repeat repeat_interleave requires_grad_
        reshape reshape_as resize_as_sparse_ resolve_conj resolve_neg retain_grad roll rot90
        row_indices select select_scatter set_ share_memory_ short signbit size slice_inverse
        slice_scatter slogdet smm softmax solve sort sparse_dim sparse_mask sparse_resize_
        sparse_resize_and_clear_ split split_with_sizes sspaddmm std stft storage storage_offset
        storage_type stride sum sum_to_size svd symeig take take_along_dim tensor_split tile to
        to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo
        to_sparse_csc to_sparse_csr tolist topk trace triangular_solve type type_as unbind
        unflatten unfold uniform_ unique unique_consecutive unsafe_chunk unsafe_split
        unsafe_split_with_sizes untyped_storage values var vdot view view_as vsplit where xpu
        zero_
        """.split()
    )
)
# Methods that arrays have: an argument of compiled code on which one is called is a tensor.
ARRAY_METHODS = TENSOR_METHODS - SHARED_METHODS


# Of functions that are methods, too, those whose first argument may be a number, or a list.
_OF_NUMBERS_FIRST = OF_NUMBERS | frozenset(
    """
        divide multiply subtract pow float_power xlogy polygamma dequantize
        bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
        addbmm addmm addmv addr baddbmm sspaddmm
    """.split()
)


def takes_tensor_first(name: str) -> bool:
    """Whether the first argument of a function of torch is always a tensor."""
    head, _, tail = name.rpartition(".")
    if head == "torch":
        return tail in TENSOR_METHODS and tail not in _OF_NUMBERS_FIRST
    return head == "torch.nn.functional" and not tail.startswith(("has_torch_", "handle_torch_"))
