"""Idioms of masks: reductions under one, and branches that ask whether one selects anything."""

from __future__ import annotations

from tests.fixes.fuzz.programs import Program, idiom


def _mask(made: Program, *rows: str) -> str:
    """A mask over some of the dimensions of ``x``, under a name or written out."""
    mask = made.pick("x > 0", "x.abs() < 2", "~(x < 0)", "x == x", "torch.isnan(x)", *rows)
    if made.chance(0.7):
        made.add(f"kept = {mask}")
        return "kept"
    return mask


@idiom("masked_reduction")
def reduced(made: Program) -> None:
    """A sum or a mean of what a mask selects."""
    made.scripted = False
    mask = _mask(made, "x.sum(-1) > 0", "x[..., 0] > 0")
    one = made.pick("x", "(x * 2)", "x.exp()", "(x + y)", "x")
    value = made.pick(
        *(f"{one}[{mask}]", f"({one}[{mask}] - x[{mask}] * 0.5).abs()", f"x[{mask}].pow(2)"),
        *(f"x[{mask}] / (x[{mask}].abs() + 1)", f"x[{mask}] * y", f"x[{mask}].clamp(0, 1)"),
    )
    form = made.pick("{}.mean()", "{}.sum()", "torch.sum({})", "torch.mean({})", "{}.mean() * k")
    made.keep(form.format(value))


@idiom("ignored_rows")
def lost(made: Program) -> None:
    """A loss of the rows that a mask selects."""
    made.scripted = False
    made.add(
        "scores = x.float().nan_to_num(0.0).clamp(-9, 9)",
        "labels = torch.arange(x[..., 0].numel()).view(x.shape[:-1]) % x.shape[-1]",
    )
    if made.chance(0.5):
        made.add("labels = torch.where(x[..., 0] > 0, labels, -7)")
    rows = made.pick("labels >= 0", "labels >= 0", "(labels >= 0) & (labels != 1)", "x[..., 0] > 0")
    if made.chance(0.7):
        made.add(f"kept = {rows}")
        rows = "kept"
    if made.chance(0.2):
        made.add("missing = labels < 0")
        rows = "~missing"
    given = f"scores[{rows}], labels[{rows}]{made.pick('', '', '.long()')}"
    said = made.pick("", "", "reduction='sum'", "ignore_index=1", "label_smoothing=0.1")
    if made.chance(0.3):
        made.init.append(f"self.criterion = nn.CrossEntropyLoss({said})")
        made.keep(f"self.criterion({given})")
    elif made.chance(0.3):
        made.add(f"loss_fct = nn.CrossEntropyLoss({said})")
        made.keep(f"loss_fct({given})")
    else:
        end = ".sum()" if made.chance(0.2) else ""
        said = "reduction='none'" if end else said
        made.keep(f"F.cross_entropy({given}{said and ', '}{said}){end}")


@idiom("mask_guard")
def asked(made: Program) -> None:
    """A branch that asks whether a mask selects anything, around writes under it."""
    made.scripted = False
    made.add("out = x * 1.0", "other = torch.zeros_like(out)")
    number = made.pick("0", "-1.0", "k", "float('-inf')", "1.0 / k", "self.limit", "k / 3")
    number = made.pick(number, number, number, number, "torch.finfo(x.dtype).max")
    rows = made.chance(0.3)
    mask = _mask(made, *(["x.sum(-1) > 0"] * 9 if rows else ["x < -99"]))
    inner, mask = mask, f"~({mask})" if made.chance(0.2) else mask
    writes = [
        *(f"out[{mask}] = {number}", f"out[{mask}] = other[{mask}] - {number}"),
        *(f"out[{mask}] += 1", f"out[{mask}] = x[{mask}]", f"out[{mask}] = y"),
    ]
    if "sum(-1)" in made.lines[-1] + mask and "~" not in mask:
        writes += [f"out[{mask}, :1] = {number}", f"out[{mask}, :1] = -x[{mask}, :1]"] * 2
    fills = [
        *(f"out = torch.where({mask}, {number}, out)", f"out = out.masked_fill({mask}, 0.0)"),
        *(f"out = torch.where({mask}, out.abs(), out)", f"out.masked_fill_({mask}, {number})"),
    ]
    lines = [made.pick(*writes, *([] if rows else fills))]
    if made.chance(0.3):
        lines.append(f"other[{mask}] = 1")
    if made.chance(0.3):
        lines = [f"at = {mask}", *(line.replace(mask, "at") for line in lines)]
        if made.chance(0.3):
            lines.insert(1, "out = out.clone()")
    if made.chance(0.3):
        at = made.pick("0", "0", str(len(lines)))
        lines.insert(int(at), made.pick("print('set')", "logger.info('set')", "print(out)"))
    test = made.pick(
        *(f"({mask}).any()", f"torch.any({mask})", f"({mask}).sum() > 0", f"({mask}).any().item()"),
        *(f"k > 1 and ({mask}).any()", f"bool(({mask}).any())", f"({mask}).all()"),
        f"({mask}).sum().item() != 0",
    )
    if mask != inner:
        test = f"not ({inner}).all()"
    made.add(f"if {test}:", *(f"    {line}" for line in lines))
    made.kept += ["out", "other"]
