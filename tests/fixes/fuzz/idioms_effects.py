"""Idioms of host code in a region: messages, settings, numbers, draws, layers made late."""

from __future__ import annotations

from tests.fixes.fuzz.programs import Program, idiom


@idiom("guard_logging", "log_once")
def said(made: Program) -> None:
    """Messages."""
    made.scripted = False
    text = made.pick(
        *("print('seen', k)", "logger.warning('a %s', k)", "warnings.warn('old', stacklevel=2)"),
        *("logger.info(f'{k}')", "print(seen.append(k))", "print(x.shape)", "logger.error('b')"),
        *("logger.warning_once('once')", "logger.warning_once(f'once {k}')", "print(seen.pop())"),
        *(
            "warnings.warn('old', FutureWarning)",
            "logger.log(20, 'c')",
            "print(x.sum().item() > 0)",
        ),
    )
    if "_once" in text:
        made.above.append("logger.warning_once = logger.warning")
    if made.chance(0.5):
        test = made.pick("k > 1", "seen", "k > 1 or k < 0", "k in (1, 2)", "not seen and p < 2")
        made.add(f"if {test}:", f"    {text}")
        if made.chance(0.3):
            made.add(made.pick("else:\n    seen.append(2)", "elif k < 0:\n    x = x + 1"))
    else:
        made.add(text, *([text] if made.chance(0.4) else []))


@idiom("log_once")
def said_once(made: Program) -> None:
    """A message of a logger that says it once."""
    made.scripted = False
    made.above.append("logger.warning_once = logger.warning")
    made.add(
        made.pick(
            *("logger.warning_once('once')", "logger.warning_once(f'once {k}')"),
            "if k > 1:\n    logger.warning_once('k')",
            "if seen:\n    logger.warning_once('seen')",
        )
    )


@idiom("guard_effect")
def gradient(made: Program) -> None:
    """Gradients asked for in the middle."""
    made.scripted = False
    made.add(
        made.pick(
            "z = x.detach().clone().float()", "z = torch.ones(3)", "z = (x * 2).float().detach()"
        )
    )
    made.add(
        made.pick(
            *("z.requires_grad = True", "z.requires_grad_()", "z.requires_grad_(True)"),
            *("z = z.requires_grad_()", "if k > 1:\n    z.requires_grad_()"),
        )
    )
    made.keep("z * 2")


@idiom("backend_flags")
def flags(made: Program) -> None:
    """A backend's flags."""
    made.scripted = False
    call = made.pick(
        *("cudnn.flags(enabled=False)", "cudnn.flags(enabled=k > 1, benchmark=False)"),
        *("mkldnn.flags(enabled=False)", "cudnn.flags(deterministic=True)"),
    )
    other = made.pick("", "", "torch.no_grad(), ")
    named = made.pick("", "", "", " as held")
    made.add(f"with {other}torch.backends.{call}{named}:", "    x = x * 2")
    if made.chance(0.3):
        made.add("    x = x + 1")


@idiom("drawing_function")
def helper(made: Program) -> None:
    """A helper that draws from numpy."""
    made.scripted = False
    draw = made.pick(
        "np.random.rand()", "np.random.randint(0, 5)", "np.random.normal()", "random.random()"
    )
    loop = made.pick("for index in range(count):", "while index < count:")
    again = "        index += 1\n" if "while" in loop else ""
    start = "    index = 0\n" if "while" in loop else ""
    extra = made.pick(
        "", "", "", "    warnings.warn('drawn', stacklevel=2)\n", "    where.append(count)\n"
    )
    dtype = made.pick("", ", dtype=np.int64", ", dtype='float32'")
    result = made.pick("found", "found", "np.array(found)", "found + 1", "found.tolist()")
    deco = made.pick("", "", "", "", "@functools.cache\n")
    head = "import functools\n\n\n" if deco else ""
    made.above.append(
        f"{head}where = []\n\n\n{deco}def draws(count, scale=1.0):\n"
        f"    found = np.zeros(count{dtype})\n{start}    {loop}\n"
        f"        found[index] = {draw} * scale\n{again}{extra}    return {result}"
    )
    given = made.pick("3", "x.shape[-1]", "k, scale=2.0", "k")
    made.keep(f"torch.as_tensor(draws({given}))")
    if made.chance(0.3):
        made.add(
            made.pick(
                "seen.append(draws.__name__)", "seen.append(len(where))", "seen.append(draws(2))"
            )
        )


@idiom("breaking_function")
def setup(made: Program) -> None:
    """Layers that are made when they are first needed."""
    made.scripted = False
    made.init.append("self.layer = None")
    kind = made.pick(
        "nn.Linear(3, 3)", "nn.LayerNorm(3)", "nn.Parameter(torch.ones(3))", "nn.Linear(3, size)"
    )
    extra = made.pick("", "", "\n    self.extra = size", "\n    print('made')", "\n    return size")
    note = made.pick("", ": int", ": torch.Tensor")
    made.methods.append(f"def build(self, size{note} = 3):\n    self.layer = {kind}{extra}")
    made.add(
        "if self.layer is None:", f"    self.build({made.pick('', '3', 'size=3', 'x.shape[-1]')})"
    )
    used = "self.layer(x.float())" if "nn.L" in kind else "x * self.layer"
    made.add(f"x = {used}")
    made.add("seen.append(sorted(self.state_dict()))")
