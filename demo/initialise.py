"""The initial weights: a network that already copies.

With a small budget, gradient descent needs most of its steps to discover induction (find where the last tokens
occurred before, and repeat what followed). The circuit is known, so it is written down here: layer 0 gets heads that
look one and two tokens back, and layer 1 gets heads that find the position whose two preceding tokens equal the last
two and copy its token. Training may change all of it.

The residual stream is cut by one random rotation into directions for: a token's content (128), the content of the
token before (52) and of the one before that (28), and a constant (1) that every embedding carries, by which queries
and keys of the looking-back heads are fixed vectors, so that rotation alone selects the positions. The next token is
written in the 128 directions that are not content, from which the output head reads it.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from demo.network import Attention, Layer, Network, Shape

CONTENT = 128
ONE_BACK = 52
TWO_BACK = 28
SHARED_ONE, SHARED_TWO = 26, 14
"""Dimensions of a matching head's key that hold the token one back and the token two back."""

POSITION_PAIRS = 6
"""The pairs of a head that rotate fastest, by which layer 0 distinguishes neighbouring positions."""

CONTENT_PAIRS = (SHARED_ONE + SHARED_TWO) // 2
"""Slowest-turning pairs of a head, in which layer 1 compares contents almost regardless of distance."""


def initialise(network: Network, *, copying: bool, seed: int = 0) -> None:
    """Fill every parameter of `network`; with `copying`, write the circuit over layers 0 and 1.

    The circuit needs hidden 256, heads of 64, two key-value heads and at least two layers. Raise ValueError otherwise.
    """
    generator = torch.Generator().manual_seed(seed)
    hidden = network.shape.hidden_size
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" in name:
                parameter.fill_(1.0)
            elif name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.zero_()
            elif name.startswith(("model.embed_tokens", "lm_head")):
                parameter.normal_(0.0, 1.0 if "embed" in name else 0.02, generator=generator)
            else:
                parameter.normal_(0.0, 0.5 * hidden**-0.5, generator=generator)
        if copying:
            _write_circuit(network, generator)


def _write_circuit(network: Network, generator: torch.Generator) -> None:
    shape = network.shape
    if (shape.hidden_size, shape.head_dim, shape.num_key_value_heads) != (256, 64, 2) or shape.num_hidden_layers < 2:
        raise ValueError(f"the copying circuit does not fit {shape}")
    basis = torch.linalg.qr(torch.randn(shape.hidden_size, shape.hidden_size, generator=generator)).Q
    content, rest = basis[:, :CONTENT], basis[:, CONTENT:]
    constant, one_back, two_back, _ = rest.split((1, ONE_BACK, TWO_BACK, CONTENT - 1 - ONE_BACK - TWO_BACK), dim=1)
    fingerprint = torch.linalg.qr(torch.randn(CONTENT, shape.head_dim, generator=generator)).Q

    embeddings = torch.randn(shape.vocab_size, CONTENT, generator=generator)
    network.model.embed_tokens.weight.copy_(embeddings @ content.T + 4.0 * constant.T)
    network.lm_head.weight.copy_(0.06 * embeddings @ rest.T)

    look_back, match = (cast("Layer", layer).self_attn for layer in network.model.layers[:2])
    _write_look_back(look_back, shape, content @ fingerprint, constant, (one_back, two_back))
    _write_match(match, content, rest, content @ fingerprint, (one_back, two_back))


def _write_look_back(
    attention: Attention, shape: Shape, reads: Tensor, constant: Tensor, writes: tuple[Tensor, Tensor]
) -> None:
    """Let heads 0 and 1 look one and two tokens back; both read the same 64 numbers of the token found."""
    head = shape.head_dim
    fastest = torch.arange(POSITION_PAIRS)
    speed = shape.rope_theta ** (-2.0 * fastest / head)
    for offset, target in enumerate(writes, start=1):
        rows = slice((offset - 1) * head, offset * head)
        # Rotating a query `offset` ahead of a key undoes this rotation, so that their product is largest there.
        query = torch.zeros(head)
        query[fastest] = torch.cos(speed * offset)
        query[fastest + head // 2] = -torch.sin(speed * offset)
        attention.q_proj.weight[rows] = torch.outer(query, constant[:, 0])
        attention.o_proj.weight[:, rows.start : rows.start + target.shape[1]] = target
    key = torch.zeros(head)
    key[fastest] = 1.0
    attention.k_proj.weight[:head] = torch.outer(key, constant[:, 0])
    attention.v_proj.weight[:head] = reads.T
    for norm in (attention.q_norm, attention.k_norm):
        norm.weight[fastest] = norm.weight[fastest + head // 2] = 2.0


def _write_match(
    attention: Attention, content: Tensor, rest: Tensor, fingerprint: Tensor, backs: tuple[Tensor, Tensor]
) -> None:
    """Let heads 0 and 2 find the token after the last two tokens' earlier occurrence and copy half of it each."""
    one_back, two_back = backs
    head = attention.head_dim
    slowest = torch.arange(head // 2 - CONTENT_PAIRS, head // 2)
    dims = torch.cat((slowest, slowest + head // 2))
    for half in range(2):
        ones = slice(half * SHARED_ONE, (half + 1) * SHARED_ONE)
        twos = slice(half * SHARED_TWO, (half + 1) * SHARED_TWO)
        query = torch.cat((fingerprint[:, ones], one_back[:, twos]), dim=1).T
        key = torch.cat((one_back[:, ones], two_back[:, twos]), dim=1).T
        q_rows, kv_rows = half * 2 * head, half * head
        copied = slice(half * head, (half + 1) * head)
        attention.q_proj.weight[q_rows : q_rows + head] = 0.0
        attention.q_proj.weight[q_rows + dims] = query
        attention.k_proj.weight[kv_rows : kv_rows + head] = 0.0
        attention.k_proj.weight[kv_rows + dims] = key
        attention.v_proj.weight[kv_rows : kv_rows + head] = content[:, copied].T
        attention.o_proj.weight[:, q_rows : q_rows + head] = 4.0 * rest[:, copied]
    for norm in (attention.q_norm, attention.k_norm):
        norm.weight[dims] = 1.5
