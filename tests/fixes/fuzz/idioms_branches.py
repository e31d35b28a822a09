"""Idioms of branches, checks and draws."""

from __future__ import annotations

from tests.fixes.fuzz.programs import Program, idiom


@idiom("tensor_branch")
def finite(made: Program) -> None:
    """A guard against inf and nan."""
    if made.chance(0.8):
        rich = () if made.scripted else ("x = self.norm(x)", "x = kept = x * 1.5", "x = +x")
        made.add(
            made.pick(
                *("x = x * 2.0", "x = x + y", "x = torch.softmax(x.float(), -1)", "x = x.float()"),
                *("x = torch.add(x, y)", "x = x.exp()", "x = x.float() / y", "x = torch.relu(x)"),
                *rich,
            )
        )
    test = made.pick(
        *("torch.isinf(x).any()", "torch.isnan(x).any()", "not torch.isfinite(x).all()"),
        *("(torch.isinf(x).any() or torch.isnan(x).any())", "x.isnan().any().item()"),
        *("torch.any(torch.isinf(x))", "torch.isinf(x).any() and torch.isnan(x).any()"),
    )
    static = made.pick(
        *("", "", "x.dtype == torch.float16 and ", "x.is_floating_point() and ", "k > 1 and "),
        *("x.dtype in (torch.float16, torch.float32) and ", "self.training and "),
        *("x.dtype == torch.float32 and ", "x.dtype == torch.float32 and "),
    )
    made.add(f"if {static}{test}:")
    if made.chance(0.15) and not made.scripted:
        made.add(made.pick("    logger.warning('inf')", "    print('inf')", "    seen.append(1)"))
    limit = made.pick(
        "4.0", "torch.finfo(x.dtype).max - 1000", "self.limit", "1e9", "1000", "65504"
    )
    if made.chance(0.5):
        made.add(f"    limit = {limit}")
        limit = "limit"
    clamped = f"{made.pick('torch.clamp(x, ', 'x.clamp(')}min=-{limit}, max={limit})"
    replaced = made.pick(
        *("torch.nan_to_num(x)", "x.nan_to_num(0.0)", f"torch.nan_to_num(x, nan={limit})"),
        *("torch.nan_to_num(x, 0.0, posinf=1.0, neginf=-1.0)", f"x.nan_to_num(posinf={limit})"),
    )
    made.add(f"    x = {replaced if made.chance(0.4) else clamped}")
    if made.chance(0.3):
        made.add(made.pick("x = x * 3", "x.mul_(2)", "x = x - y", "x = x * -0.0"))


def _arm(made: Program) -> str:
    return made.pick(
        *("x * 2", "x + 1", "x.relu()", "torch.abs(x)", "torch.cat([x, x])", "x.unsqueeze(0)"),
        *("x.double()", "x[0]", "torch.where(mask, x, 0 * x)", "-x", "x.clamp(-1, 1)", "x / y"),
        *("x.view(-1)", "x.exp()", "torch.zeros_like(x)", "x - x.mean()", "x * y", "x"),
        *(() if made.scripted else ("self.norm(x)", "x[mask]")),
    )


def _condition(made: Program) -> str:
    return made.pick(
        *("x.sum() > 0", "y.abs().max() < 9", "mask.any()", "(x > 0).all()", "y.mean() < 1"),
        *("x.sum() > 0 and y.sum() > 0", "not mask.all()", "x.shape[0] > 1 and mask.any()"),
        *("x.max() > y.max()", "torch.any(x > 1)", "x.sum()"),
    )


@idiom("tensor_branch")
def branch(made: Program) -> None:
    """An ``if`` whose arms select."""
    if made.chance(0.5):
        made.add("x = x * 1.0")
    condition = _condition(made)
    if made.chance(0.2):
        made.add(f"asked = {condition}")
        condition = "asked"
    made.add(f"if {condition}:")
    form = made.rng.random()
    if form < 0.6:
        made.add(f"    x = {_arm(made)}")
        if made.chance(0.4):
            made.add("else:", f"    x = {_arm(made)}")
    else:
        a, b = made.name(), made.name()
        made.add(f"    {a} = {_arm(made)}", f"    {b} = {_arm(made)}", "else:")
        made.add(f"    {a} = {_arm(made)}", f"    {b} = {_arm(made)}")
        made.kept += [a, b]


def _step(made: Program, name: str) -> str:
    """A statement of an arm that does more than give one name a value of its own."""
    other = made.pick("x", "y", "k", "2", "half")
    return made.pick(
        *(f"{name} = {name} * {other}", f"{name} = {name} - {other}", f"{name} = x * {other}"),
        *(f"{name} -= {other}", f"{name} += y", f"{name} *= 2", "half = x * 2", "x = x.abs()"),
        *(f"{name} = {name} / x.abs().sum()", f"{name}[..., 0] = 2", f"{name}.zero_()"),
        *(f"{name} = x - x.cumsum(-1)", f"{name} = {name} * x.reshape(-1).sum()"),
        *(() if made.scripted else ("print(x.shape)", "logger.warning('large')", "warn_once(k)")),
    )


@idiom("tensor_branch")
def steps(made: Program) -> None:
    """Arms of several statements, behind an ``elif``, with a read in the condition."""
    made.scripted = made.scripted and made.chance(0.5)
    name = made.name()
    made.add(f"{name} = x * 1.5", "x = x + 0")
    made.add("half = x / 2" if made.chance(0.8) else "if k > 0: half = x / 2")
    condition = _condition(made)
    if made.chance(0.3) and not made.scripted:
        condition = made.pick(
            *("x.sum().item() > 0.5", "bool(mask.any())", "float(x.sum()) < 4"),
            *("int(mask.sum()) < 2", "torch.rand(1).item() > 0.5", "int(x.abs().sum().item()) < 3"),
            *("int(x.abs().mean())", "int(mask.sum())", "int(y.abs().mean()) == 0"),
        )
    word = "if"
    if made.chance(0.3):
        made.add("if k > 1:", f"    {name} = x")
        word = "elif"
    made.add(f"{word} {condition}:")
    for _ in range(made.rng.randint(1, 3)):
        made.add(f"    {_step(made, name)}")
    if made.chance(0.4):
        made.add("else:", f"    {_step(made, name)}")
    made.kept.append(name)


@idiom("tensor_branch")
def elements(made: Program) -> None:
    """Arms that write to elements of a tensor, in a loop over its rows."""
    made.scripted = False
    name = made.name()
    made.add(f"{name} = x * 1.5", f"for i in range(min({name}.dim(), 1) and len({name})):")
    asked = made.pick(f"({name}[i] > 0).any()", f"{name}[i].sum() > 0", _condition(made))
    read = made.pick(f"{name}[i]", f"{name}[i]", f"{name}[0]", "x[i]")
    value = made.pick(
        *("0", "2.5", f"{read} * 2", f"{read} - 1", f"{read} * y", f"-{read}", "x[mask]"),
        *(f"{read}.relu()", f"{read} + x[i]"),
    )
    lines = [f"{name}[i] {made.pick('=', '=', '+=', '*=')} {value}"]
    if made.chance(0.3):
        more = made.pick("k = k - 1", f"{name}[0] = 1.0", "print(i)", f"{name} = {name} + 1")
        lines.insert(made.rng.randint(0, 1), more)
    made.add(f"    if {asked}:", *(f"        {line}" for line in lines))
    if made.chance(0.4):
        made.add("    else:", f"        {name}[i] = {made.pick('1.0', read, f'{read} + 1')}")
    made.kept.append(name)


@idiom("tensor_branch")
def counts(made: Program) -> None:
    """Arms that count, in a loop whose other statements hold the number, or change it."""
    made.scripted = False
    name, held = made.name(), made.name()
    made.add(f"{name}, {held} = {made.pick('0', '0', '1.5')}, []")
    made.add("for i in range(min(x.dim(), 1) and len(x)):")
    asked = made.pick("x[i].sum() > 0", "(x[i] > 0).any()", "x[i].mean() < 1", "mask.any()")
    changed = made.pick("+= 1", "+= 1", "-= 2", "*= 2", "+= x[i].sum()")
    made.add(f"    if {asked}:", f"        {name} {changed}")
    if made.chance(0.3):
        made.add(f"    {name} {made.pick('+= 1', '/= 2', '+= 0.5', '*= 1')}")
    made.add(f"    {held}.append({name})")
    if made.chance(0.3):
        made.add(f"{name} {made.pick('/= 2', '+= 0.5', '*= 2')}")
    # What was a number is a tensor, as the reason says.
    made.add(f"{held} = torch.tensor([float(each) for each in [{name}, *{held}]])")
    made.kept.append(held)


@idiom("host_random")
def host_drop(made: Program) -> None:
    """A draw of the host that is compared."""
    made.scripted = False
    draw = made.pick(
        *("random.random()", "np.random.rand()", "random.uniform(0, 1)"),
        *("np.random.random()", "np.random.uniform(0, 1)", "random.uniform(0, 2)"),
    )
    compared = made.pick("draw < 0.3", "draw < self.limit", "draw > 0.5", "0.2 < draw")
    if made.chance(0.5):
        made.add(f"draw = {draw}", f"if {compared}:")
    else:
        made.add(f"if {compared.replace('draw', draw)}:")
    made.add("    x = x * 0")


# How a draw may be bound otherwise, or not at all.
_BOUND = (
    "if k > 0:|    {}",
    "{}|match [k, 0]:|    case [draw, _]:|        pass",
    "{}|if k > 1:|    import math as draw",
    "try:|    seen[k]|    {}|except IndexError:|    pass",
    "for draw in range(k):|    {}",
    "{}|if k > 1:|    del draw",
)


@idiom("random_skip", "host_random")
def drop(made: Program) -> None:
    """A draw compared with a probability."""
    draws = [
        "torch.rand([])",
        "torch.rand(1)",
        "torch.rand((1, 1))",
        "torch.rand([], device=x.device)",
    ]
    if not made.scripted:
        draws += ["random.uniform(0, 1)", "random.random()", "np.random.uniform(0, 1)"]
        draws += ["np.random.rand()", "random.uniform(0, 1)", "random.random()"]
    probability = made.pick("self.p", "p", "p", "p", "p", "self.limit", "0.3", "p * 0.5")
    draw = made.rng.choice(draws)
    if made.chance(0.7):
        made.add(f"draw = {draw}")
        draw = "draw"
        if made.chance(0.15) and not made.scripted:
            made.lines = [
                *made.lines[:-1],
                *made.rng.choice(_BOUND).format(made.lines[-1]).split("|"),
            ]
        if made.chance(0.1) and not made.scripted:
            made.add("seen.append(draw)")
    compared = made.pick(
        f"{draw} < {probability}", f"{draw} < {probability}", f"{probability} > {draw}"
    )
    if made.chance(0.3):
        made.add(f"skip = {compared}")
        made.add(made.pick("if skip:", "if self.training and skip:", "if skip and k > 0:"))
    else:
        made.add(f"if {made.pick('', '', 'self.training and ', 'k > 1 and ')}{compared}:")
    made.add("    x = x * 0")
    if made.chance(0.3):
        made.add("else:", "    x = x + 1")


_RARELY = (
    *("x.sum() > 1e6", "(x > 1e6).any()", "not (x < 1e6).all()", "x.min() < -1e6", "k > 99"),
    *("torch.any(x > 1e6)", "k > 0 and (x > 1e6).any()", "y.abs().sum() > 1e6"),
    *("torch.isnan(x).all()", "(x.shape[0] > 9) and x.max() > 1e6", "x.mean() > 1e6"),
)


# These hold for some inputs.
_SOMETIMES = (
    *("x.sum() > 4", "(x < 0).any()", "not (x >= 0).all()", "k > 1 and (x > 3).any()"),
    *("x.sum().item() > 4", "float(y) < 0", "x.float().max() > 3", "y < 0"),
)


@idiom("tensor_raise")
def raised(made: Program) -> None:
    """``if tensor: raise``."""
    text = made.pick('"large"', '"large"', 'f"large {k}"', '"a" "b"')
    error = made.pick("ValueError", "RuntimeError", "ValueError")
    made.add(f"if {made.pick(*_RARELY, *_SOMETIMES)}:", f"    raise {error}({text})")


@idiom("tensor_raise")
def raised_behind_more(made: Program) -> None:
    """A branch that raises in another way, or does more."""
    test = made.pick(*_RARELY, *_SOMETIMES)
    last = made.pick(*("raise ValueError(text)", "raise ValueError", "raise KeyError(k, text)"))
    before = made.pick(*('text = f"large {k}"', 'text = "large"', "text = str(seen.append(k))"))
    more = [] if made.scripted else [made.pick("", "", "seen.append(k)", "print(k)")]
    form = made.pick("if", "if", "elif")
    head = ["if k > 2:", "    x = x + 1"] if form == "elif" else []
    made.add('text = "none"', *head, f"{form} {test}:")
    made.add(*(f"    {line}" for line in (before, *more, last) if line))
    if made.chance(0.3):
        made.add("else:", "    x = x * 2")


@idiom("tensor_raise")
def raised_and_caught(made: Program) -> None:
    """A helper that raises, called where errors of some kinds are caught."""
    made.scripted = False
    error = made.pick("ValueError", "ValueError", "RuntimeError", "Refused")
    test = made.pick(*_SOMETIMES)
    own = "class Refused(ValueError):\n    pass\n\n\n"
    text = made.pick('"large"', 'f"large {k}"', "k")
    above = f"def tested(x: torch.Tensor, y: torch.Tensor, k: int):\n    if {test}:\n"
    above += f"        raise {error}({text})\n    return x * 2"
    made.above.append((own if error == "Refused" else "") + above)
    caught = made.pick(
        "ValueError", "RuntimeError", "KeyError", "Exception", "(KeyError, ValueError)"
    )
    call = made.pick("x = tested(x, y, k)", "x = tested(x, y, k)", "k = int(str(k))")
    behind = made.pick("x = x + 1", "seen.append(k)", "pass")
    if made.chance(0.7):
        made.add("try:", f"    {call}", f"except {caught}:", f"    {behind}")
    if "tested" not in call or made.chance(0.3):
        made.add("x = tested(x, y, k)")


@idiom("tensor_assert", "guard_assert")
def asserted(made: Program) -> None:
    """An assert on tensors' values."""
    message = made.pick("", "", ", 'text'", ", f'{k}'")
    made.add(
        made.pick(
            *("assert x.max().item() < 1e6 and y.min() > -1e6", "assert (x < 1e6).all().item()"),
            *("assert x.max().item() < 1e6 and k >= -1", "assert x.sum().item() < 1e6"),
            *("assert k < 9 and x.shape[0] > -1", "assert (x < 1e6).all()"),
            *("assert y.max().item() < 1e6 and x.max() < 1e6", "assert x.min().item() > -1e6"),
            *("assert not torch.isnan(y).any()", "assert torch.all(x < 1e6) or k > 3"),
            *("assert torch.all(x < 1e6) and (y > -1e6).any()", "assert y.all() and (x < 9).all()"),
        )
        + message
    )


@idiom("guard_check")
def check_called(made: Program) -> None:
    """A function that only checks."""
    made.scripted = False
    name = made.pick("check_values", "_assert_finite", "validate", "verify_range", "RANGE_CHECK")
    body = "    if float(x.max()) > top:\n        raise ValueError(top)"
    made.above.append(f"def {name}(x, top=1e6):\n{body}")
    made.add(
        made.pick(
            *(f"{name}(x, x.abs().max().item() + 1)", f"{name}(x, top=y.item() + 1e6)"),
            *(f"{name}(x, float(y.abs().max()) + 1e6)", f"{name}(x, y.sum().item() + 1e6)"),
            *(f"seen.append({name}(x, y.max().item() + 1e6))", f"{name}(x)"),
        )
    )


@idiom("guard_check")
def check_among_others(made: Program) -> None:
    """Checks behind conditions, beside others, on objects, and some that do more."""
    made.scripted = False
    name = made.pick("check_all", "assertSmall", "CHECK", "verify", "_validate_x", "checked")
    extra = made.pick("", "", "    x.add_(1)\n", "    print('checked')\n")
    body = (
        f"{extra}    if x.numel() and float(x.float().max()) > top:\n        raise ValueError(top)"
    )
    made.above.append(f"def {name}(x, top=3.0, note=None):\n{body}")
    note = made.pick("", "", ", note=seen.append(k)", ", note=k", ", note=(z := k)")
    lines = [f"{name}(x, y.max().item() + {made.pick('3', '1e6')}{note})"]
    if made.chance(0.4):
        lines.append(made.pick(f"{name}(x * 2, y.sum().item())", f"{name}(x)", "seen.append(2)"))
    if made.chance(0.4):
        test = made.pick("k > 1", "seen", "not seen", "k > 1 or p < 2", "seen.append(1) is None")
        made.add(f"if {test}:", *(f"    {line}" for line in lines))
        if made.chance(0.3):
            made.add(made.pick("else:\n    x = x + 1", "elif k < 0:\n    seen.append(k)"))
    elif made.chance(0.2):
        made.add("; ".join(lines))
    elif made.chance(0.3):
        behind = made.pick("except ValueError:\n    x = x + 1", "finally:\n    seen.append(k)")
        made.add("try:", *(f"    {line}" for line in lines), behind)
    else:
        made.add(*lines)


@idiom("mask_unless_full")
def full_mask(made: Program) -> None:
    """A full mask that is forgotten."""
    made.scripted = False
    asked = made.pick(
        *("mask.all()", "k > 9 or torch.all(mask == 1)", "not mask.any()", "(mask == 1).all()"),
        *("mask is not None and torch.all(mask == 1)", "k < 0 or mask.all()"),
        "(k > 9 and p > 2) or (mask is not None and mask.all())",
    )
    made.add(f"if {asked}:", "    mask = None", "if mask is not None:")
    made.add(
        made.pick("    x = x.masked_fill(~mask, 0)", "    x = x * mask", "    x = x + 0 * mask")
    )


@idiom("mask_unless_full")
def full_mask_among_choices(made: Program) -> None:
    """A mask or None, chosen by what the mask holds."""
    made.scripted = False
    bad = made.pick("mask", "(x != x)", "x.isnan()")
    made.add(f"bad = {bad}")
    kept, asked = made.pick("bad", "~bad", "bad.logical_not()", "x"), "bad.any()"
    asked = made.pick(asked, f"bool({asked})", f"{asked}.item()", "not (~bad).all()")
    asked = made.pick(asked, asked, f"k > 0 and {asked}", f"k > 0 or {asked}")
    form = made.pick("choice", "choice", "negated", "none before", "else", "dropped")
    if form == "choice":
        made.add(f"found = {kept} if {asked} else None")
    elif form == "negated":
        made.add(f"found = None if not ({asked}) else {kept}")
    elif form == "none before":
        made.add(made.pick("found = None", "found = None", "found = bad"))
        made.add(f"if {asked}:", f"    found = {kept}")
    elif form == "else":
        made.add(f"if {asked}:", f"    found = {kept}", "else:", "    found = None")
    else:
        made.add("if not bad.any():", "    found = None", "else:", f"    found = {kept}")
    made.add("if found is not None:", "    x = x.masked_fill(found != 0, 0)")
