"""The lattice of abstract values: its laws, and what a join keeps."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.values import Value, join

NEEDS = [Need("param", "m.f", "x"), Need("return", "m.g", ""), Need("attr", "m.C", "y|0")]


def tensors() -> st.SearchStrategy[Value]:
    conditions = st.lists(st.sampled_from(NEEDS), max_size=2, unique=True).map(tuple)
    return st.builds(
        v.tensor,
        st.sampled_from(["", "seen", "told"]),
        st.sampled_from(["", "bool", "int", "float"]),
        st.sampled_from([v.ANYWHERE, v.ON_DEVICE, v.ON_HOST]),
        st.integers(-1, 2),
        st.sampled_from([0, v.RANDOM, v.FRESH, v.BUFFER | v.DYNAMIC, v.SYMBOL, v.PLAIN]),
        conditions,
    )


def scalars() -> st.SearchStrategy[Value]:
    names = st.sampled_from(["", "m.A", "m.B", "m.A,m.B"])
    return st.one_of(
        st.sampled_from([v.UNKNOWN_VALUE, v.NONE_VALUE, v.TEXT_VALUE, v.READ_VALUE, v.NUMPY_VALUE]),
        st.sampled_from([None, 0, 1, True, 2.5]).map(lambda const: Value(v.NUMBER, const=const)),
        names.map(lambda name: Value(v.INSTANCE, cls=name)),
        names.map(lambda name: Value(v.INSTANCE, cls=name, flags=v.MODULE)),
        names.map(lambda name: Value(v.CALLABLE, cls=name)),
        st.sampled_from(["", "bool", "int"]).map(lambda dtype: Value(v.DTYPE, dtype=dtype)),
    )


def containers(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    items = st.lists(inner, max_size=3)
    return st.one_of(
        items.map(v.sequence),
        st.dictionaries(st.sampled_from(["a", "b", 0, 1]), inner, max_size=3).map(v.mapping),
        inner.map(lambda item: Value(v.SEQUENCE, item=item)),
        inner.map(lambda item: Value(v.MAPPING, item=item)),
    )


VALUES = st.recursive(tensors() | scalars(), containers, max_leaves=4)
JOINED = st.lists(VALUES, min_size=1, max_size=3).map(v.join_all)


def below(a: Value, b: Value) -> bool:
    return join(a, b) == b


@settings(deadline=None, max_examples=400)
@given(JOINED, JOINED, JOINED)
def test_a_join_is_commutative_associative_and_idempotent(a: Value, b: Value, c: Value) -> None:
    assert join(a, a) == a
    assert join(a, b) == join(b, a)
    assert join(join(a, b), c) == join(a, join(b, c))


@settings(deadline=None, max_examples=300)
@given(JOINED, JOINED, JOINED)
def test_a_join_is_an_upper_bound_and_monotone(a: Value, b: Value, c: Value) -> None:
    assert below(a, join(a, b))
    assert below(join(a, c), join(join(a, b), c))


@settings(deadline=None, max_examples=100)
@given(st.lists(VALUES, min_size=20, max_size=60))
def test_a_growing_value_settles(values: list[Value]) -> None:
    seen, changes = values[0], 0
    for value in values * 2:
        grown = join(seen, value)
        changes += grown != seen
        seen = grown
    assert all(below(value, seen) for value in values)
    assert changes <= 60  # kinds, flags, classes and elements of three levels


def test_may_and_must_are_apart() -> None:
    either = join(v.tensor(dtype="float", ndim=2), v.NONE_VALUE)
    assert either.is_tensor and not either.must_be_tensor
    assert either.dtype == "float" and either.ndim == 2  # of the tensor, if it is one


def test_a_dictionary_keeps_its_keys() -> None:
    one = v.mapping({"a": v.tensor(), "n": v.NUMBER_VALUE})
    other = v.mapping({"a": v.NONE_VALUE})
    joined = v.entries(join(one, other))
    assert joined["n"] == v.NUMBER_VALUE
    assert joined["a"].kinds == v.TENSOR | v.NONE


def test_a_layer_or_nothing_is_still_a_layer() -> None:
    layer = Value(v.INSTANCE, flags=v.MODULE, cls="torch.nn.Linear")
    assert join(layer, v.NONE_VALUE).flags & v.MODULE
    assert not join(layer, Value(v.INSTANCE, cls="m.Own")).flags & v.MODULE
