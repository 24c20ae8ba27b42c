"""Kernels as servers and trainers of language models have them give what torch gives."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch", reason="torch is not installed")

import serving_kernels as kernels
import torch

import xtarget

assert kernels

close = torch.testing.assert_close
silu = torch.nn.functional.silu


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("shape", [(5, 200), (1, 2), (64, 66), (3, 0)])
def test_a_length_that_a_formula_alone_says(shape: tuple[int, int], place: str) -> None:
    x = torch.randn(shape, device=place).bfloat16()
    gate, up = x.float().chunk(2, -1)
    close(xtarget.run("s.silu_and_mul", x), (silu(gate) * up).bfloat16())


def test_a_length_that_does_not_fit_its_formula_is_refused(place: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match="dimension 1 has to be 2 \\* D = 200"):
        xtarget.run("s.silu_and_mul", torch.randn(5, 201, device=place))


@pytest.mark.parametrize("lengths", [[3], [5, 0, 70], [1, 2, 3, 4, 5]])
def test_a_list_of_starts_says_how_many_there_are(lengths: list[int], place: str) -> None:
    x = torch.randn(sum(lengths), device=place)
    starts = torch.tensor([0, *lengths]).cumsum(0).int().to(place)
    right = torch.stack([part.sum() for part in x.split(lengths)])
    close(xtarget.run("s.sequence_sums", x, starts), right)


def test_floats_of_8_bits_by_their_bits(place: str) -> None:
    if place != "cpu" and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this GPU has no float8 e4m3")
    x = torch.randn(5, 96, device=place)
    bits, scales = xtarget.run("s.group_quantise", x)
    parts = x.view(5, 3, 32)
    close(scales.T.contiguous(), parts.abs().amax(2) / 448)
    back = bits.view(torch.float8_e4m3fn).float().view(5, 3, 32) * scales.T[..., None]
    close(back, parts, rtol=0.07, atol=1e-3)


def test_a_tensor_of_float8_says_how_it_is_given(place: str) -> None:
    x = torch.ones(5, device=place).to(torch.float8_e4m3fn)
    with pytest.raises(xtarget.ArgumentError, match=r"does not take float8_e4m3fn.*to float16 fir"):
        xtarget.run("add", x, x)
    other = torch.ones(5, device=place).to(torch.float8_e4m3fnuz)
    with pytest.raises(xtarget.ArgumentError, match=r"view\(torch.uint8\).*float8e4b8, bitcast"):
        xtarget.run("cast", other, dtype="float32")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keys_go_to_their_slots_in_a_view(dtype: Any, place: str) -> None:
    key = torch.randn(6, 2, 24, device=place)
    both = torch.zeros(3, 2, 4, 2, 24, dtype=dtype, device=place)
    slots = torch.tensor([3, -1, 7, 0, 11, 5], device=place)
    xtarget.run("s.cache_write", key, both[:, 1], slots, torch.full((1,), 2.0, device=place))
    right = torch.zeros(12, 2, 24, dtype=dtype, device=place)
    right[slots[slots >= 0]] = (key[slots >= 0] / 2).to(dtype)
    close(both[:, 1].reshape(12, 2, 24), right)
    assert not both[:, 0].any()


def test_a_mixture_of_experts(place: str) -> None:
    tokens, k, n, count, top, block = 21, 48, 40, 4, 2, 16
    a, b = torch.randn(tokens, k, device=place), torch.randn(count, n, k, device=place)
    weights, ids = torch.randn(tokens, count, device=place).softmax(-1).topk(top)
    order, expert_of = [], []
    for expert in range(count):
        pairs = (ids.flatten() == expert).nonzero().flatten().int()
        order += [pairs, pairs.new_full((-len(pairs) % block,), tokens * top)]
        expert_of += [expert] * -(-len(pairs) // block)
    padded = torch.cat(order)
    used = torch.tensor([len(padded)], dtype=torch.int32, device=place)
    experts = torch.tensor(expert_of, dtype=torch.int32, device=place)
    out = torch.zeros(tokens * top, n, device=place)
    xtarget.run("s.experts", a, b, out, weights.flatten(), padded, experts, used, WEIGHTED=True)
    right = torch.einsum("mk,mtnk->mtn", a, b[ids]) * weights[..., None]
    close(out.view(tokens, top, n), right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_the_gated_delta_rule(gated: bool, begun: bool, place: str) -> None:
    batch, length, heads, k, v = 2, 9, 3, 16, 32
    query, key = (torch.randn(batch, length, heads, k, device=place) for _ in range(2))
    key = torch.nn.functional.normalize(key, dim=-1)
    value = torch.randn(batch, length, heads, v, device=place)
    beta, gate = (torch.rand(batch, length, heads, device=place) for _ in range(2))
    start = torch.randn(batch, heads, k, v, device=place)
    state, results = start if begun else torch.zeros_like(start), []
    for t in range(length):
        state = state * (gate[:, t].exp()[..., None, None] if gated else 1)
        old = torch.einsum("bhkv,bhk->bhv", state, key[:, t])
        change = (value[:, t] - old) * beta[:, t, :, None]
        state = state + key[:, t, :, :, None] * change[:, :, None]
        results.append(torch.einsum("bhkv,bhk->bhv", state, query[:, t] * 0.25))
    given = {"gate": gate if gated else None, "start": start if begun else None}
    out, end = xtarget.run("s.gated_delta", query, key, value, beta=beta, scale=0.25, **given)
    close(out, torch.stack(results, 1), rtol=1e-3, atol=1e-3)
    close(end, state, rtol=1e-3, atol=1e-3)


def test_a_step_of_a_convolution_shifts_its_state(place: str) -> None:
    x, weight = torch.randn(3, 50, device=place), torch.randn(50, 4, device=place)
    state = torch.randn(5, 3, 50, device=place).transpose(1, 2)  # any view
    slots = torch.tensor([4, 0, 2], dtype=torch.int32, device=place)
    window = torch.cat([state[slots.long()], x[..., None]], 2)
    after = state.clone()
    after[slots.long()] = window[..., 1:]
    out = xtarget.run("s.conv_update", x, state, weight, slots, activation="silu")
    close(out, silu((window * weight).sum(2)))
    close(state, after)


@pytest.mark.parametrize("whole", [True, False])
def test_states_that_lie_apart_are_updated_in_place(whole: bool, place: str) -> None:
    pool = torch.randn(6, 20, 12, device=place)
    state, untouched = pool[::2], pool[1::2].clone()
    x, dt, gate = (torch.randn(3, 20, device=place) for _ in range(3))
    b, c = (torch.randn(3, 12, device=place) for _ in range(2))
    a, skip, bias = -torch.rand(20, 12, device=place), x[0] + 1, dt[0] + 1
    delta = torch.nn.functional.softplus(dt + bias) if whole else dt
    new = state * torch.exp(a * delta[..., None]) + b[:, None] * (delta * x)[..., None]
    right = (new * c[:, None]).sum(2)
    if whole:
        right = (right + x * skip) * silu(gate)
        found = xtarget.run(
            "s.state_update", state, x, dt, bias, a, b, c, skip, gate, SOFTPLUS=True
        )
    else:
        found = xtarget.run("s.state_update", state, x, dt, a=a, b=b, c=c)
    close(found, right, rtol=1e-4, atol=1e-4)
    close(state, new)
    close(pool[1::2], untouched)


@pytest.mark.parametrize("tokens", [1, 9, 100])
def test_pairs_are_sorted_by_expert_in_three_launches(tokens: int, place: str) -> None:
    ids = torch.randint(0, 8, (tokens, 2), device=place)
    order, starts = (one.tolist() for one in xtarget.run("s.expert_order", ids))
    flat = ids.flatten().tolist()
    for expert in range(8):
        mine = order[starts[expert] : starts[expert + 1]]
        assert len(mine) % 4 == 0
        pairs = [n for n, chosen in enumerate(flat) if chosen == expert]
        assert sorted(n for n in mine if n >= 0) == pairs
    assert set(order[starts[8] :]) <= {-1}
