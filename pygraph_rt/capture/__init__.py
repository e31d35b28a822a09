"""From an ordinary call and two captures to a `ReplayPlan`.

- `observe.py`: what an ordinary call shows: which allocation becomes which output.
- `generated.py`: generated code with another allocation function.
- `checks.py`: arguments and allocators that a capture cannot take, by name.
- `placeholders.py`: addresses without memory for tensors that a capture only names.
- `stream_capture.py`: torch's stream capture, begun and ended safely.
- `record.py`: one capture, and all that keeps it readable.
- `nodes.py`: the captured graph as plain data.
- `address_words.py`: which parameter words follow which block.
- `unknown_words.py`: no other word is an address.
- `capture.py`: both captures to a `ReplayPlan`.
"""
