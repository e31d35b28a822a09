"""Idioms of values read in comprehensions, of draws on the host, and of positions from sizes."""

from __future__ import annotations

from tests.fixes.fuzz.programs import Program, idiom


@idiom("drawing_function")
def draws_on_the_host(made: Program) -> None:
    """A helper, or a constructor, that makes generators and draws."""
    made.scripted = False
    draw = made.pick(
        "    generator = torch.Generator().manual_seed(seed)\n"
        "    found = torch.rand(3, generator=generator)\n",
        "    generator = np.random.default_rng(seed)\n    found = generator.random()\n",
        "    found = random.Random(seed).random() + random.random()\n",
        "    state = np.random.RandomState(seed)\n    found = torch.tensor(state.rand(3))\n",
        "    torch.manual_seed(seed)\n    found = np.random.rand() + random.gauss(0, 1)\n",
        "    found = random.random() + np.random.normal()\n",
    )
    extra = made.pick(
        "", "", "", "    found = torch.sin(torch.as_tensor(found))\n", "    print(seed)\n"
    )
    if made.chance(0.4):
        body = "".join(f"    {line}\n" for line in f"{draw}{extra}".splitlines())
        made.above.append(
            "class Noise:\n    def __init__(self, seed, other=None):\n"
            f"{body}        self.found = found"
        )
        made.keep(made.pick("x * Noise(k * k).found", "Noise(3).found", "Noise(seed=1).found"))
        return
    deco = made.pick("", "", "", "@torch.no_grad()\n")
    made.above.append(f"{deco}def noise(seed, other=None):\n{draw}{extra}    return found")
    made.keep(made.pick("x * noise(k * k)", "noise(3)", "noise(seed=1)"))


@idiom("breaking_function")
def positions(made: Program) -> None:
    """A helper that works out positions from sizes."""
    made.scripted = False
    body = made.pick(
        "    ends = torch.repeat_interleave(rows[:, 0] * rows[:, 1], rows[:, 0])\n"
        "    return F.pad(ends.cumsum(dim=0), (1, 0), value=0)",
        "    found = []\n    for a, b in rows.tolist():\n"
        "        found.append(torch.arange(a * b).reshape(a, b).flatten())\n"
        "    return torch.cat(found) if found else torch.arange(0)",
        "    counts = rows[:, 0] * rows[:, 1]\n"
        "    starts = torch.repeat_interleave(counts.cumsum(0) - counts, counts)\n"
        "    return torch.arange(counts.sum()) - starts",
        "    counts = rows.prod(-1)\n    scale.append(1)\n"
        "    return torch.arange(int(counts.sum())) * len(scale)",
    )
    made.above.append(f"def positions(rows, scale):\n{body}")
    made.keep("positions(rows, [])")


@idiom("tensor_branch")
def selected(made: Program) -> None:
    """An ``if`` that sets a truth value, or one of two shapes."""
    made.scripted = False
    condition = made.pick("y.sum() > 1", "x.sum() > 0", "(x > 0).all()", "k > 1 and y.sum() > 1")
    form = made.rng.random()
    if form < 0.4:
        first = made.pick("y.sum() <= 1", "x.mean() > y.sum()", "k > 1", "False", "mask.all()")
        made.add(
            f"taken = {first}", f"if {condition}:", f"    taken = {made.pick('True', 'False')}"
        )
        if made.chance(0.3):
            made.add(f"if {condition}:", "    taken = False")
        made.keep("x * taken")
        return
    step = made.pick("x.sum()", "y.reshape(())", "x.abs().max() if x.numel() else y.sum()", "y * 1")
    other = made.pick("self.low", "self.low", "x", "2.0", "y", "mask")
    made.init.append(f"self.low = {made.pick('torch.tensor(0.5)', 'torch.ones(3)', '0.5')}")
    test = made.pick("not torch.isfinite(step)", "torch.isnan(step)", "step < 0", "step.isinf()")
    made.add(f"step = {step}", f"if {test}:", f"    step = {other}")
    made.keep("step * 2")


@idiom("breaking_function")
def drives(made: Program) -> None:
    """A helper whose control flow depends on tensors' values."""
    made.scripted = False
    test = made.pick("z.sum() > 1", "z.max() > z.min() + 1", "(z > 2).any()", "w.sum() > 0")
    plain = made.pick("z = z / 2", "z = step(z)", "z = step(z) * 0.5", "z.mul_(0.5)")
    lines = {
        "while": [f"while {test} and len(kept) < 4:", f"    {plain}", "    kept.append(1)"],
        "for": ["for turn in range(3):", f"    if {test}:", f"        {plain}", "    w = w + turn"],
        "twice": [
            *(f"if {test}:", f"    {plain}", "    kept.append(1)"),
            *("if z.min() < 0:", "    kept.append(z.min().item())"),
        ],
        "break": ["for turn in (1, 2, 3):", f"    {plain}", f"    if {test}:", "        break"],
    }[made.pick("while", "for", "twice", "break")]
    ends = made.pick("return z, len(kept)", "return z", "return kept", "return z.exp(), w")
    lines = ["kept = []", *lines, ends]
    made.above.append("def step(z):\n    return z.tanh() + 0.1")
    deco = made.pick("", "", "", "@torch.no_grad()\n")
    if made.chance(0.5) and not deco:
        made.methods.append("def drive(self, z, w):\n" + "\n".join(f"    {one}" for one in lines))
        made.keep("self.drive(x.clone(), y)")
    else:
        body = "\n".join(f"    {one}" for one in lines)
        note = made.pick("", ": torch.Tensor")
        made.above.append(f"{deco}def drive(z{note}, w):\n{body}")
        made.keep(made.pick("drive(x * 2, y)", "drive(x.clone(), w=y)"))


@idiom("breaking_statements")
def turns(made: Program) -> None:
    """A comprehension that reads in each turn."""
    made.scripted = False
    read = made.pick(
        *("len(r.nonzero())", "r.nonzero()", "r.max().item()", "r.tolist()", "r[r > 0]"),
        *("torch.unique(r)", "r.argmax().item() + k", "self.seen(r.sum().item())"),
    )
    made.methods.append("def seen(self, n):\n    self.last = n\n    return n")
    form = made.pick(
        "[{0} for r in {1}]",
        "[({0}, r) for r in {1} if k]",
        "{{n: {0} for n, r in enumerate({1})}}",
        "[x, *[{0} for r in {1}]]",
        "[{0} for r in {1} for _ in range(2)]",
        "[{0} if n else k for n, r in enumerate({1})]",
        "[[{0}] for r in {1}] if k > 0 else x",
    )
    over = made.pick("x", "x.unbind(0)", "rows.split(1)", "[x, y, x * k]", "parts", "(x * 2, rows)")
    if over == "parts":
        made.add(f"parts = {made.pick('[x, y]', 'x.chunk(2)', '[]', 'rows.unbind(0)')}")
    made.keep(form.format(read, over))


@idiom("breaking_function")
def kept(made: Program) -> None:
    """A method that keeps what it read, and one that only passes it on."""
    made.scripted = False
    made.init.append("self.low = 0")
    line = made.pick(
        "self.low = z.min().item()",
        "self.low = int(z.sum() > 0)",
        "low = z.max().item()\n    self.low = low",
        "self.low = z.tolist()",
        "self.low = self.low + z.min().item()",
        "if flat:\n        self.low = z.max().item()\n    else:\n        self.low = z.min().item()",
        "if not flat:\n        self.low = z.max().item()",
        "self.low = z.nonzero()",
    )
    ends = made.pick("", "\n    return self.low", "\n    return z", "\n    return z.sum() * 2")
    made.methods.append(f"def look(self, z, flat=False):\n    {line}{ends}")
    use = made.pick("self.look(x)", "self.look(y, flat=True)", "self.look(z=x)")
    if made.chance(0.4):
        passes = made.pick(
            f"return {use}", f"a = {use}\n    return a, 1", f"return x if k else {use}"
        )
        made.methods.append(f"def passes(self, x, y, k):\n    {passes}")
        use = "self.passes(x, y, k)"
    if made.chance(0.4):
        use = f"[{use} for x in {made.pick('x', '(x, x * 2)', 'x.chunk(2)')}]"
    made.keep(use)
    made.keep("self.low")


@idiom("breaking_function")
def small(made: Program) -> None:
    """A small helper that breaks once, and one that only passes it on."""
    made.scripted = False
    body = made.pick(
        "if z.sum() > 0:\n        kept.append(1)\n    return z * 2",
        "return z if z.sum() > 0 else z.abs()",
        "return z[z > 0]",
        "z.mul_(0.5)\n    return z / max(1.0, z.abs().max().item())",
        "if flat:\n        return z\n    else:\n        return z[z > 0] + 1",
        "kept.append(z.max().item())\n    return z",
        "return z.sin() * torch.rand(()).item()",
    )
    note = made.pick("", ": torch.Tensor")
    made.above.append(f"def little(z{note}, kept, flat=False):\n    {body}")
    use = made.pick(
        "little(x.clone(), [])", "little(x * 2, [])", "little(y.clone(), [], flat=k > 2)"
    )
    if made.chance(0.5):
        passes = made.pick(f"return {use}", f"a = {use}\n    return a, k", f"return (x, {use})")
        made.above.append(f"def passes(x, y, k):\n    {passes}")
        use = "passes(x, y, k)"
    made.keep(use)


@idiom("breaking_function")
def layered(made: Program) -> None:
    """Layers and helpers around what breaks, which call each other."""
    made.scripted = False
    body = made.pick(
        *("return z[z > 0]", "return z * z.max().item() if z.numel() else z"),
        *("if z.sum() > 0:\n            return z * 2\n        return z", "return z.nonzero()"),
        "self.last = z.sum().item()\n        return self.last",
        "return z.sum().item()",
        "z = (z @ z.t()).sin().cos().tanh().exp().abs().sqrt().log()\n        return z[z > 0]",
    )
    given = made.pick("self.inner(z)", "self.inner(z.clone())", "self.passed(z)", "self.inner(z=z)")
    outer = made.pick(
        f"return {given}",
        f"found = {given}\n        return found, z * 2",
        f"return {given} if self.on else z",
        f"if self.on:\n            z = z + 1\n            return {given}\n        return z",
        f"for _ in range(2):\n            found = {given}\n        return found",
        f"for _ in range(2):\n            z = z.sin()\n        return {given}",
        f"return [{given} for _ in range(2)]",
        f"try:\n            return {given}\n        except RuntimeError:\n            return z * 3",
    )
    deco = made.pick("", "", "    @torch.no_grad()\n", "    @logged\n")
    made.above.append(
        "def logged(function):\n    @functools.wraps(function)\n    def call(*args, **named):\n"
        "        return function(*args, **named)\n\n    return call\n\n\n"
        f"class Inner(nn.Module):\n    def forward(self, z):\n        {body}\n\n\n"
        "class Outer(nn.Module):\n    def __init__(self, on=True):\n        super().__init__()\n"
        "        self.inner = Inner()\n        self.on = on\n\n"
        "    def passed(self, z):\n        return self.inner(z)\n\n"
        f"{deco}    def forward(self, z: torch.Tensor):\n        {outer}"
    )
    made.init.append(f"self.outer = {made.pick('Outer()', 'Outer(False)')}")
    made.above.insert(0, "import functools")
    made.add(f"seen.append(self.outer({made.pick('x', 'x * 2', 'y', 'x.clone()')}))")


@idiom("carried_read")
def read_by_each_layer(made: Program) -> None:
    """Layers that read one list each, in a loop."""
    made.scripted = False
    read = made.pick(
        *("sizes.tolist()", "(ends[1:] - ends[:-1]).tolist()", "ends.diff().tolist()") * 2,
        *("[ends.max().item()]", "ends.diff().tolist() + [int(self.wide)]"),
    )
    before = "        sizes = ends[1:] - ends[:-1]\n" if "sizes" in read else ""
    default = made.pick("", "", "=None")
    changed = made.pick("", "", "", "        parts.append(0)\n")
    none = "        if ends is None:\n            return x\n" if default else ""
    deco = made.pick("", "", "", "    @torch.no_grad()\n")
    more = made.pick("", ", **kwargs")
    made.above.append(
        "class Part(nn.Module):\n    wide = 0\n\n"
        f"{deco}    def forward(self, x, ends{default}{more}):\n{none}{before}"
        f"        parts = {read}\n{changed}        return x * len(parts) + sum(parts)"
    )
    through = f"{made.pick('ends', 'ends=ends')}{made.pick('', ', **kwargs') if more else ''}"
    given = ", **kwargs" if "kwargs" in through else ""
    made.above.append(
        "class Layer(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.part = Part()\n\n    def forward(self, x, ends{default}{given}):\n"
        f"        return self.part(x, {through}).tanh()"
    )
    made.init.append("self.layers = nn.ModuleList([Layer() for _ in range(2)])")
    name = made.name()
    made.add(f"{name} = x", "ends = torch.tensor([0, k + 1, 9])")
    call = made.pick(
        "layer({}, ends)", "layer({}, ends=ends)", "layer({}, ends if k else ends + 1)"
    )
    loop = made.pick("layer in self.layers", "_, layer in enumerate(self.layers)")
    made.add(f"for {loop}:", f"    {name} = {call.format(name)}")
    made.add(*made.pick("", "", "    ends = ends + 1", "    ends.add_(1)").splitlines())
    made.kept.append(name)


@idiom("breaking_statements")
def several_reads(made: Program) -> None:
    """Statements beside each other that read, with light ones in between."""
    made.scripted = False
    made.above.append(
        "@torch.compiler.disable\ndef outside(z, kept=None):\n"
        "    if kept is not None:\n        kept.append(z.sum().item())\n    return z.tolist()"
    )
    made.methods.append("def own(self, z):\n    self.last = z.max().item()\n    return self.last")
    made.init.append("self.last = 0")
    reads = [
        *("{0} = x.sum().item()", "{0} = y.tolist()", "{0} = [r.item() for r in x.flatten()]"),
        *("{0} = outside(x)", "{0} = outside(x * 2, seen)", "seen.append(x.sum().item())"),
        *("{0} = x[x > 0]", "{0}, k = x.nonzero(), k + 1", "{0} = torch.unique(x)"),
        *("self.last = y.sum().item()\n{0} = k", "{0} = self.own(x)", "{0} = x.sum().item() + k"),
        *("{0} = first = x.max().item()", "k = y.sum().item()\n{0} = k", "{0} = int(mask.sum())"),
        *("x = x + y.sum().item()\n{0} = 1", "{0} = torch.full((k % 3, 1), x.sum().item())"),
    ]
    between = [
        *("", "", "", "", "{0} = k + 1", "{0} = [a for a in range(3)]", "x = x + 1", "k = k * 2"),
        *(
            "{0} = x.view(-1)",
            "seen.append(k)",
            "{0} = (lambda: k)()",
            "print(k)",
            "{0} = self.last",
        ),
        *(
            "{0} = x.shape[0]  # rows",
            "{0} = max(\n    k,\n    2,\n)",
            "rows = rows + 1",
            "x.add_(1)",
        ),
        *("if k > 1:\n    seen.append(k)", "if not self.last:\n    self.last = x.sum().item()"),
        *(
            "if x.sum() > 0:\n    seen.append(1)\nelse:\n    self.last = outside(x)",
            "if k < 9:\n    self.own(x)",
            "if k > 0:\n    {0} = 1",
        ),
    ]
    lines: list[str] = []
    for _ in range(made.rng.randint(2, 4)):
        for line in (made.pick(*reads), made.pick(*between)):
            name = made.name()
            lines += line.format(name).splitlines()
            if "{0}" in line and made.chance(0.8):
                made.kept.append(name)
    around = made.pick("", "", "", "if k != 99:", "for turn in range(2):", "with torch.no_grad():")
    if made.chance(0.05):
        lines.insert(0, "later = lambda: k")
    made.add(*([around, *(f"    {line}" for line in lines)] if around else lines))


@idiom("breaking_function")
def made_in_between(made: Program) -> None:
    """A module that is made in a function which torch.compile gives up on."""
    made.scripted = False
    first = made.pick("super().__init__()", "super(Scaled, self).__init__()", "super().__init__(2)")
    base = "Base" if "2" in first else made.pick("nn.Module", "nn.Module", "Base")
    more = made.pick(
        *("self.by = by", "self.by = by\n        self.last = nn.ReLU()", "self.by = by * self.two"),
        "self.by = nn.Parameter(torch.ones(()) * by)",
    )
    more = more.replace("self.two", "2" if base == "nn.Module" else "self.two")
    made.above.append(
        "class Base(nn.Module):\n    def __init__(self, two=2):\n        super().__init__()\n"
        f"        self.two = two\n\n\nclass Scaled({base}):\n    def __init__(self, by):\n"
        f"        {first}\n        {more}\n\n    def forward(self, z):\n        return z * self.by"
    )
    body = made.pick(
        "for turn in range(3):\n        z = scaled(z)\n        "
        "if z.sum() > 100:\n            break",
        "while z.sum() < 3 and len(kept) < 4:\n        z = scaled(z) + 1\n        kept.append(1)",
        "z = scaled(z)\n    try:\n        kept.append(z.max().item())\n    "
        "finally:\n        z = z * 2",
    )
    form = made.pick("scaled = Scaled({})", "scaled = Scaled(by={})").format(
        made.pick("2", "k + 1")
    )
    if made.chance(0.3):
        form += f"\n    scaled = nn.Sequential(scaled, {made.pick('Scaled(0.5)', 'Base()')})"
        form = form.replace("Base()", "nn.Identity()")
    made.above.append(
        f"def made_in(z, k):\n    kept = []\n    {form}\n    {body}\n    return z, kept"
    )
    made.keep(made.pick("made_in(x * 2, k)", "made_in(x.clone(), k)", "made_in(y * 1, k=k)"))


@idiom("breaking_function")
def unless_given(made: Program) -> None:
    """A helper that reads what it is not given."""
    made.scripted = False
    read = made.pick(
        *("int(z.max()) + 1", "z.sum().item()", "z[z > 0].sum()", "len(z.nonzero())"),
        *("int(z.max()) + 1 if z.numel() > 0 else 0", "float(z.mean()) if len(z) else 0.0"),
    )
    test = made.pick(
        *("size is None", "not size", "size is None and whole", "size is None or whole"),
        *("isinstance(z, torch.Tensor)", "not torch.jit.is_scripting()", "size is not None"),
    )
    last = made.pick(
        "return size",
        "return z * (size or 1)",
        "return z.reshape(-1)[0], z[None], size",
        "if whole:\n        return z.sin() * 2, size\n    return z.cos() * 3 + z.sin(), size",
        "if not whole:\n        return z\n    return z.flatten().unsqueeze(0) * (size or 2)",
    )
    first = made.pick(
        *("", "", "if size is not None:\n        return size\n    "),
        "if not whole and size:\n        return z\n    ",
    )
    made.above.append(
        f"def sized(z: torch.Tensor, size=None, whole=True):\n    {first}if {test}:\n"
        f"        size = {read}\n    {last}"
    )
    made.keep(
        made.pick(
            *("sized(x)", "sized(x * 2)", "sized(y)", "sized(x, 3)", "sized(x, whole=k > 2)"),
            *("sized(x, size=k)", "sized(x[:0])", "[sized(r) for r in x]"),
        )
    )
