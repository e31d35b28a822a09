"""Names that a fix imports into a file that does not have them."""

from __future__ import annotations

import pytest

from tests.fixes.support import decline, expect

_ASKED = "torch.compiler.is_compiling() or x.sum() > 0"


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("", "import torch\n\n\n"),
        ('"""Sums."""\n\nimport math\n\n\n', '"""Sums."""\n\nimport math\n\nimport torch\n\n\n'),
        (
            "import math\nimport numpy as np\n\n\n",
            "import math\nimport numpy as np\nimport torch\n\n\n",
        ),
        (
            "import math\n\nimport numpy as np\n\nfrom own import f\n\n\n",
            "import math\n\nimport numpy as np\nimport torch\n\nfrom own import f\n\n\n",
        ),
        ("# of 2020\n\n", "# of 2020\n\nimport torch\n\n\n"),
    ],
)
def test_a_check_of_a_tensor_brings_torch_with_it(above: str, expected: str) -> None:
    """As in torchdiffeq 0.2.5 `_impl/interp.py` and torchsde 0.2.6 `_core/interp.py`."""
    body = "def forward(x):\n    assert {}, f'{{x}}'\n    return x\n"
    expect(above + body.format("«x.sum() > 0»"), expected + body.format(_ASKED), "PG301", "unsafe")


def test_torch_is_not_imported_where_a_file_does_without_it_at_times() -> None:
    """A file that imports torch in a `try` can be used without it."""
    decline(
        """
        try:
            import torch
        except ImportError:
            pass

        def forward(x):
            assert «x[x > 0]».numel() > 0, f'{x}'
            return x
        """,
        "PG402",
        "torch",
    )
