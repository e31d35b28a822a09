"""torch.distributions: what objects of it hold and give."""

from __future__ import annotations

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.arithmetic import merge_device
from pygraph_lint.analysis.syntax.nodes import span_of

PREFIX = "torch.distributions."
_COUNTING = frozenset(("Categorical", "OneHotCategorical"))  # their draws are integers
# What checks nothing itself.
_MADE_OF_OTHERS = ("Independent", "TransformedDistribution", "MixtureSameFamily", "Distribution")
CHECKED = ("log_prob", "cdf")
"""Methods that look at the values of their arguments."""
_DRAWS = frozenset(("sample", "rsample", "sample_n", "rsample_n"))
_TENSORS = frozenset(
    """
        log_prob entropy perplexity cdf icdf enumerate_support mean mode variance stddev probs
        logits loc scale rate concentration covariance_matrix scale_tril precision_matrix df low
        high concentration1 concentration0 temperature
    """.split()
)


def made_distribution(state: State, name: str, site: CallSite) -> Value:
    """A call of a name in torch.distributions."""
    where = merge_device(site.everything)
    tail = name.rpartition(".")[2]
    if tail == "kl_divergence":
        return v.tensor("torch.distributions.kl_divergence returns a tensor", "float", where)
    if not tail[:1].isupper() or tail.endswith(("Transform", "Constraint")):
        return v.UNKNOWN_VALUE
    unchecked = site.named.get("validate_args", v.NONE_VALUE)
    if checks_what_it_gets(tail) and unchecked.kinds == v.NONE:
        _note_checked(state, PREFIX + tail, site)
    return Value(
        v.INSTANCE,
        device=where,
        cls=PREFIX + tail,
        flags=0 if unchecked.kinds == v.NONE else v.LITERAL,
    )


def checks_what_it_gets(name: str) -> bool:
    """Whether the constructor of a class looks at the values of its arguments."""
    return name not in _MADE_OF_OTHERS


def gives_tensor(method: str) -> bool:
    """Whether a method of distributions gives a tensor."""
    return method in _DRAWS | _TENSORS


def _note_checked(state: State, spelled: str, site: CallSite) -> None:
    """Record tensors whose values are checked on the host."""
    given = [value for value in site.everything if value.is_tensor and value.device != v.ON_HOST]
    if given:
        about = min(given, key=lambda value: len(value.needs))
        about = about._replace(needs=(*about.needs, Need("checks", "", "")))
        state.event("sync.validated", span_of(site.node), spelled, about)


def is_distribution(value: Value) -> bool:
    """Whether a value is an object of torch's own distributions."""
    return value.kinds & ~v.NONE == v.INSTANCE and value.cls.startswith(PREFIX)


def distribution_method(state: State, base: Value, method: str, site: CallSite) -> Value:
    """``distribution.method(...)``."""
    if method in CHECKED and not base.flags & v.LITERAL:
        _note_checked(state, f".{method}()", site)
    if method == "expand":
        return base
    if not gives_tensor(method):
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
