"""Idioms of tensors that are made somewhere else than they are used."""

from __future__ import annotations

from tests.fixes.fuzz.programs import Program, idiom


def _count(made: Program) -> str:
    rich = () if made.scripted else ("Box().size(0)", "int(x.shape[0] / 2)")
    sizes = ("x.shape[0]", "x.size(0)", "len(x)", "k", "3", "x.shape[0] * 2", "x.dim()", "5 - k")
    return made.pick(*sizes, *rich)


@idiom("factory_device")
def moved(made: Program) -> None:
    """``torch.zeros(n).to(x.device)`` and what may stand between."""
    n, name = _count(made), made.name()
    factory = made.pick(
        *(f"torch.zeros({n})", f"torch.ones({n}, 3)", f"torch.arange({n})", "torch.eye(3)"),
        *(f"torch.arange(0, {n}, 2)", f"torch.full(({n},), 3e9)", "torch.arange(0, 1, 0.1)"),
        *(f"torch.rand({n})", f"torch.full(({n},), 300)", f"torch.arange({n}, dtype=torch.int32)"),
        *("torch.tensor([1.5, -2.5])", "torch.tensor(7)", f"torch.zeros({n}, 2, dtype=x.dtype)"),
        *(f"torch.tril_indices({n}, 3)", f"torch.ones(({n}, {n}), dtype=torch.bool)"),
        *(f"torch.full(({n}, 2), -1)", "torch.tensor([[True], [False]])", "torch.eye(2, 3)"),
    )
    chain = made.pick(
        *(("",) * 24),
        *(".unsqueeze(0)", ".float()", ".long()", "[None, :]", ".bool()", ".half()"),
        *(".flatten().int()", ".repeat(2)", ".view(-1)", ".add(1)", ".tril()", ".t()", ".flip(0)"),
        *(".unsqueeze(-1)", ".reshape(1, -1)", "[..., None]", ".transpose(0, -1)", ".neg()"),
    )
    plain = f"{factory}{chain}"
    whole = made.pick(plain, plain, plain, f"({factory} * 2){chain}", f"({factory} + k){chain}")
    to = made.pick(
        *("x.device", "x.device", "x.device", "x.device", "y.device", "device=x.device"),
        *("x.device, torch.int32", "x"),
        *("x.device, dtype=x.dtype", "device=y.device, non_blocking=True", "self.where()"),
    )
    if "where" in to:
        if made.scripted:
            to = "x.device"
        else:
            made.methods.append("def where(self):\n    return torch.device('cpu')")
    if made.chance(0.2):
        made.add(f"{name} = {whole}")
        if made.chance(0.3):
            made.add(made.pick("x = torch.zeros(3)", "k = k + 1", f"{name} = {name} * 1"))
        later = f"{name}.to({to})"
        if made.chance(0.3) and not made.scripted:
            later = made.pick(
                *(f"[{later} for _ in range(2)][0]", f"{later} if k > 0 else None"),
                *(f"k > 1 and {later}", f"(lambda: {later})()", f"[*({later} for _ in range(k))]"),
            )
        made.add(f"{name} = {later}")
    else:
        made.add(f"{name} = {whole}.to({to})")
    made.kept.append(name)
    if made.chance(0.3):
        made.add(made.pick(f"{name} = {name} * 2", f"{name}.add_(1)", f"x = x + {name}.sum()"))


@idiom("scalar_fill")
def filled(made: Program) -> None:
    """A number with a device."""
    value = made.pick(
        *("0.0", "1.0", "-0.0", "0", "1", "True", "1e-8", "2**40", "9223372036854775808", "k"),
        *("float('inf')", "torch.finfo(x.dtype).min", "-1", "1e39", "300", "2.5", "3", "-2.0"),
        *("float('-inf')", "0.5", "1e-5", "(4)", "9223372036854775807", "65504.0"),
    )
    dtype = made.pick(
        *("", "", "", ", dtype=torch.float16", ", dtype=torch.uint8", ", dtype=x.dtype"),
        *(", dtype=torch.long", ", dtype=torch.float64", ", dtype=torch.bool"),
    )
    call = f"torch.tensor({value}{dtype}, device=x.device)"
    if made.chance(0.5):
        name = made.name()
        made.add(f"{name} = {call}")
        call = name
        if made.chance(0.15):
            made.kept.append(name)
        if made.chance(0.1):
            made.add(f"x = x[: int({name})]")
    for _ in range(made.rng.choice((1, 1, 2))):
        other = made.pick("x", "y", "x * 2", "torch.ones(3)", "x.sum()")
        made.keep(
            made.pick(
                *(f"{other} * {call}", f"{call} + {other}", f"torch.where({other} > 0, x, {call})"),
                *(f"torch.maximum({other}, {call})", f"{other} < {call}", f"{call} - {other}"),
                *(f"x.masked_fill(mask, {call})", f"torch.stack([{other}.sum(), {call} * 1])"),
                *(f"{other} ** {call}", f"{call} * 2", f"torch.add({other}, {call})"),
            )
        )


@idiom("masked_write")
def masked_by_itself(made: Program) -> None:
    """A write through a mask that compares what is written to."""
    made.scripted = False
    made.add(made.pick("v = x * 2", "v = torch.empty(x.shape).fill_(1.0)", "v = x.float() + 1"))
    mask = made.pick(
        *("v < x", "x >= v", "(v < x) & (x > 0)", "~(v > x)", "v.isnan() | (v == x)", "v < x[:1]"),
        *("x[0] < 1", "x > x.mean()", "v[0] < x"),
    )
    made.add(f"where = {mask}", *(["v = v + 1"] if made.chance(0.2) else []))
    value = made.pick("x[where]", "x[where] * 2", "v[where] + x[where]", "x[where].abs() / 2")
    made.add(f"v[where] {made.pick('=', '=', '+=')} {value}")
    made.kept.append("v")


@idiom("masked_write")
def masked(made: Program) -> None:
    """A write through a mask."""
    made.scripted = False
    made.add(
        made.pick("where = x > 0", "where = mask & (x > 0)", "where = ~mask", "where = x.isnan()")
    )
    name = made.pick("x", "v", "v")
    if name == "v":
        made.add(
            made.pick("v = x * 2", "v = torch.zeros_like(x)", "v = x.clone()", "v = x.float() + 1")
        )
    value = made.pick(
        *("x[where] * 2", "x[where].abs()", "x[where] / 2 + 1", "1.0", "x[where] + v[where]", "y"),
        *("torch.exp(x[where])", "x[where].sum()", "x[~where]", "x[where] - x[where].mean()"),
    )
    if name == "x":
        value = value.replace("v[", "x[")
    made.add(f"{name}[where] {made.pick('=', '=', '+=', '*=')} {value}")
    made.kept.append(name)
