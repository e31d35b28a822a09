"""torch.distributions: what objects of it hold and give."""

from __future__ import annotations

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.state import CallSite
from pygraph_lint.analysis.transfer.arithmetic import merge_device
from pygraph_lint.analysis.values import Value

_PREFIX = "torch.distributions."
_COUNTING = frozenset(("Categorical", "OneHotCategorical"))  # their draws are integers
_DRAWS = frozenset(("sample", "rsample", "sample_n", "rsample_n"))
_TENSORS = frozenset(
    """
        log_prob entropy perplexity cdf icdf enumerate_support mean mode variance stddev probs
        logits loc scale rate concentration covariance_matrix scale_tril precision_matrix df low
        high concentration1 concentration0 temperature
    """.split()
)


def made_distribution(name: str, site: CallSite) -> Value:
    """A call of a name in torch.distributions."""
    where = merge_device(site.everything)
    tail = name.rpartition(".")[2]
    if tail == "kl_divergence":
        return v.tensor("torch.distributions.kl_divergence returns a tensor", "float", where)
    if not tail[:1].isupper() or tail.endswith(("Transform", "Constraint")):
        return v.UNKNOWN_VALUE
    return Value(v.INSTANCE, device=where, cls=_PREFIX + tail)


def is_distribution(value: Value) -> bool:
    """Whether a value is an object of torch's own distributions."""
    return value.kinds & ~v.NONE == v.INSTANCE and value.cls.startswith(_PREFIX)


def distribution_method(base: Value, method: str) -> Value:
    """``distribution.method(...)``."""
    if method == "expand":
        return base
    if method not in _DRAWS | _TENSORS:
        return v.UNKNOWN_VALUE
    drawn = method in _DRAWS
    name = base.cls.rpartition(".")[2]
    dtype = "int" if drawn and name in _COUNTING else "float"
    why = f".{method}() of a torch.distributions.{name} returns a tensor"
    return v.tensor(why, dtype, base.device)


def distribution_attribute(base: Value, name: str) -> Value:
    """``distribution.name``."""
    if name in ("batch_shape", "event_shape"):
        return v.SHAPE_VALUE
    if name == "base_dist":
        return v.UNKNOWN_VALUE
    if name not in _TENSORS:
        return v.UNKNOWN_VALUE
    return v.tensor(f"`.{name}` of a distribution is a tensor", "float", base.device)
