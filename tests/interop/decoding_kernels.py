"""Kernels for `@xtarget.kernel` of the kinds that vLLM, Liger and flash-linear-attention have,
beside those of `author_kernels` and `serving_kernels`: sampling, losses, norms and scans."""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

from typing import Any

import triton
import triton.language as tl

import xtarget
from xtarget.spec import In, InOut, Out, Stride, Workspace, next_power_of_2, step


@xtarget.kernel(name="d.reject", grid="REQUESTS")
@triton.jit
def reject(
    drafts: In["int32", "TOKENS"],
    starts: In["int32", "REQUESTS + 1"],
    draft_p: In["float32", "TOKENS", "V"] | None,
    target_p: In["float32", "TOKENS", "V"],
    bonus: In["int32", "REQUESTS"],
    recovered: In["int32", "TOKENS"],
    uniform: In["float32", "TOKENS"],
    accepted: Out["int32", "REQUESTS", "MOST + 1"].filled(-1),
    V,
    MOST: tl.constexpr = 4,
):
    """Speculative decoding: drafts are taken until one is rejected, whose place gets the recovered
    token; the bonus token comes where all were taken. Without `draft_p` drafts are certain."""
    request = tl.program_id(0)
    begin, end = tl.load(starts + request), tl.load(starts + request + 1)
    rejected = False
    for at in range(begin, end):
        if not rejected:
            token = tl.load(drafts + at)
            wanted = tl.load(target_p + at * V + token)
            if draft_p is None:
                drawn = 1.0
            else:
                drawn = tl.load(draft_p + at * V + token)
            if wanted < tl.load(uniform + at) * drawn:
                rejected = True
                token = tl.load(recovered + at)
            tl.store(accepted + request * (MOST + 1) + at - begin, token)
    if not rejected:
        tl.store(accepted + request * (MOST + 1) + end - begin, tl.load(bonus + request))


@xtarget.kernel(name="d.add_rms_norm", grid="ROWS", constants={"B": lambda c: next_power_of_2(c.N)})
@triton.jit
def add_rms_norm(
    x: InOut["T", "ROWS", "N"],
    residual: InOut["T", "ROWS", "N"],
    weight: In["T", "N"],
    x_step: Stride["x", 0],
    N,
    eps: float = 1e-6,
    B: tl.constexpr = 1,
):
    """Both in place: the residual becomes the sum, x its norm."""
    row, i = tl.program_id(0), tl.arange(0, B)
    total = tl.load(x + row * x_step + i, i < N, 0).to(tl.float32)
    total += tl.load(residual + row * N + i, i < N, 0).to(tl.float32)
    tl.store(residual + row * N + i, total.to(residual.dtype.element_ty), i < N)
    normal = total * tl.rsqrt(tl.sum(total * total, 0) / N + eps)
    scaled = normal * tl.load(weight + i, i < N, 0).to(tl.float32)
    tl.store(x + row * x_step + i, scaled.to(x.dtype.element_ty), i < N)


@xtarget.kernel(name="d.mrope", grid="TOKENS, HEADS", constants={"B": "next_power_of_2(HALF)"})
@triton.jit
def mrope(
    q: InOut["T", "TOKENS", "HEADS", "2 * HALF"],
    cos: In["float32", 3, "TOKENS", "HALF"],
    sin: In["float32", 3, "TOKENS", "HALF"],
    TOKENS,
    HEADS,
    HALF: tl.constexpr,
    TIME: tl.constexpr,
    HEIGHT: tl.constexpr,
    B: tl.constexpr,
):
    """Rotary embedding whose angles come from time, height and width by sections of a head."""
    token, head, i = tl.program_id(0), tl.program_id(1), tl.arange(0, B)
    section = tl.where(i < TIME, 0, tl.where(i < TIME + HEIGHT, 1, 2))
    angle = (section * TOKENS + token) * HALF + i
    inside = i < HALF
    c, s = tl.load(cos + angle, inside, 0), tl.load(sin + angle, inside, 0)
    at = q + (token * HEADS + head) * 2 * HALF + i
    first, second = tl.load(at, inside, 0), tl.load(at + HALF, inside, 0)
    tl.store(at, (first * c - second * s).to(q.dtype.element_ty), inside)
    tl.store(at + HALF, (second * c + first * s).to(q.dtype.element_ty), inside)


@xtarget.kernel(name="d.jsd", grid="ROWS", constants={"B": lambda c: next_power_of_2(c.V)})
@triton.jit
def jsd(
    logq: InOut["float32", "ROWS", "V"],
    logp: In["float32", "ROWS", "V"],
    label: In["int64", "ROWS"] | None,
    loss: Out["float32", "ROWS"],
    V,
    beta: float = 0.5,
    ignored: int = -100,
    B: tl.constexpr = 1,
):
    """Jensen-Shannon divergence of log-probabilities; the gradient takes the place of logq."""
    row, i = tl.program_id(0), tl.arange(0, B)
    inside = i < V
    kept = True if label is None else tl.load(label + row) != ignored
    x = tl.load(logq + row * V + i, inside, -float("inf"))
    y = tl.load(logp + row * V + i, inside, -float("inf"))
    q, p = tl.exp(x), tl.exp(y)
    m = beta * p + (1 - beta) * q
    logm = tl.log(tl.where(inside, m, 1.0))
    terms = beta * p * (y - logm) + (1 - beta) * q * (x - logm)
    total = tl.sum(tl.where(inside, terms, 0.0), 0)
    tl.store(loss + row, tl.where(kept, total, 0.0))
    slope = (1 - beta) * q * (x - logm)
    tl.store(logq + row * V + i, tl.where(kept, slope, 0.0), inside)


@triton.jit
def _norm_gradient_rows(
    x, dy, weight, dx, partial_w, partial_b, ROWS, N, GROUPS, eps, B: tl.constexpr
):
    group, i = tl.program_id(0), tl.arange(0, B)
    inside = i < N
    w = tl.load(weight + i, inside, 0)
    sum_w, sum_b = tl.zeros([B], tl.float32), tl.zeros([B], tl.float32)
    for row in range(group, ROWS, GROUPS):
        v, g = tl.load(x + row * N + i, inside, 0), tl.load(dy + row * N + i, inside, 0)
        mean = tl.sum(v, 0) / N
        apart = tl.where(inside, v - mean, 0.0)
        inverse = tl.rsqrt(tl.sum(apart * apart, 0) / N + eps)
        normal, wg = apart * inverse, w * g
        c1, c2 = tl.sum(normal * wg, 0) / N, tl.sum(wg, 0) / N
        tl.store(dx + row * N + i, (wg - normal * c1 - c2) * inverse, inside)
        sum_w += g * normal
        sum_b += g
    tl.store(partial_w + group * N + i, sum_w, inside)
    tl.store(partial_b + group * N + i, sum_b, inside)


@triton.jit
def _norm_gradient_sums(partial_w, partial_b, dw, db, N, GROUPS, B: tl.constexpr):
    i = tl.arange(0, B)
    sum_w, sum_b = tl.zeros([B], tl.float32), tl.zeros([B], tl.float32)
    for group in range(GROUPS):
        sum_w += tl.load(partial_w + group * N + i, i < N, 0)
        sum_b += tl.load(partial_b + group * N + i, i < N, 0)
    tl.store(dw + i, sum_w, i < N)
    tl.store(db + i, sum_b, i < N)


@xtarget.kernel(
    name="d.layer_norm_gradient",
    inputs={"x": In["float32", "ROWS", "N"], "dy": In["float32", "ROWS", "N"],
            "weight": In["float32", "N"]},
    scalars={"eps": 1e-5}, constants={"B": lambda c: next_power_of_2(c.N)},
    sizes={"GROUPS": lambda c: min(c.ROWS, 4)},
    workspaces={"partial_w": Out["float32", "GROUPS", "N"],
                "partial_b": Out["float32", "GROUPS", "N"]},
    outputs={"dx": "x", "dw": "weight", "db": "weight"}, complete=True,
)  # fmt: skip
def layer_norm_gradient(c: Any) -> Any:
    yield step(_norm_gradient_rows, (c.GROUPS,))
    yield step(_norm_gradient_sums, (1,), num_warps=1)


@xtarget.kernel(name="d.top_p", grid="ROWS", constants={"B": lambda c: next_power_of_2(c.V)})
@triton.jit
def top_p(
    sorted_p: In["float32", "ROWS", "V"],
    limit: In["float32", "ROWS"],
    kept: Out["float32", "ROWS", "V"],
    counts: Out["int32", "ROWS"],
    V,
    B: tl.constexpr,
):
    """The fewest of the largest probabilities that reach the limit, normalised; and how many."""
    row, i = tl.program_id(0), tl.arange(0, B)
    p = tl.load(sorted_p + row * V + i, i < V, 0)
    taken = (tl.cumsum(p, 0) - p < tl.load(limit + row)) & (i < V)
    p = tl.where(taken, p, 0.0)
    tl.store(kept + row * V + i, p / tl.sum(p, 0), i < V)
    tl.store(counts + row, tl.sum(taken.to(tl.int32), 0))


@xtarget.kernel(name="d.selective_scan", grid="BATCH, cdiv(D, BD)", constants={"BD": 16})
@triton.jit
def selective_scan(
    u: In["float32", "BATCH", "T", "D"],
    delta: In["u", "BATCH", "T", "D"],
    a: In["u", "D", "N"],
    b: In["u", "BATCH", "T", "N"],
    c: In["u", "BATCH", "T", "N"],
    skip: In["u", "D"] | None,
    state: InOut["u", "BATCH", "D", "N"],
    y: Out["u"],
    T,
    D,
    N: tl.constexpr,
    BD: tl.constexpr,
):
    """Mamba's scan: the state goes on in place."""
    batch, i, n = tl.program_id(0), tl.program_id(1) * BD + tl.arange(0, BD), tl.arange(0, N)
    inside = i < D
    decay = tl.load(a + i[:, None] * N + n[None, :], inside[:, None], 0)
    at = state + (batch * D + i[:, None]) * N + n[None, :]
    h = tl.load(at, inside[:, None], 0)
    for t in range(T):
        step_ = tl.load(delta + (batch * T + t) * D + i, inside, 0)
        x = tl.load(u + (batch * T + t) * D + i, inside, 0)
        row_b, row_c = tl.load(b + (batch * T + t) * N + n), tl.load(c + (batch * T + t) * N + n)
        h = tl.exp(step_[:, None] * decay) * h + (step_ * x)[:, None] * row_b[None, :]
        out = tl.sum(h * row_c[None, :], 1)
        if skip is not None:
            out += tl.load(skip + i, inside, 0) * x
        tl.store(y + (batch * T + t) * D + i, out, inside)
    tl.store(at, h, inside[:, None])


@xtarget.kernel(name="d.penalties", grid="ROWS, cdiv(V, B)", constants={"B": 64})
@triton.jit
def penalties(
    logits: InOut["floating", "ROWS", "V"],
    in_prompt: In["bool", "ROWS", "V"] | None,
    counts: In["int32", "ROWS", "V"],
    repetition: In["float32", "ROWS"],
    frequency: float,
    presence: float,
    V,
    B: tl.constexpr,
):
    row, i = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    inside = i < V
    value = tl.load(logits + row * V + i, inside, 0).to(tl.float32)
    times = tl.load(counts + row * V + i, inside, 0)
    seen = times > 0
    if in_prompt is not None:
        seen |= tl.load(in_prompt + row * V + i, inside, 0) != 0
    factor = tl.where(seen, tl.load(repetition + row), 1.0)
    value = tl.where(value > 0, value / factor, value * factor)
    value -= frequency * times + presence * (times > 0)
    tl.store(logits + row * V + i, value.to(logits.dtype.element_ty), inside)


@xtarget.kernel(name="d.merge_states", grid="T, H", constants={"B": lambda c: next_power_of_2(c.D)})
@triton.jit
def merge_states(
    first: In["E", "T", "H", "D"],
    first_lse: In["float32", "H", "T"],
    second: In["E", "T", "H", "D"],
    second_lse: In["float32", "H", "T"],
    out: Out["E", "T", "H", "D"],
    lse: Out["float32", "H", "T"],
    T,
    H,
    D,
    B: tl.constexpr,
):
    """Attention over two parts of the keys, joined."""
    token, head, i = tl.program_id(0), tl.program_id(1), tl.arange(0, B)
    x, y = tl.load(first_lse + head * T + token), tl.load(second_lse + head * T + token)
    top = tl.maximum(x, y)
    p, q = tl.exp(x - top), tl.exp(y - top)
    at = (token * H + head) * D + i
    one, other = tl.load(first + at, i < D, 0), tl.load(second + at, i < D, 0)
    tl.store(out + at, ((one * p + other * q) / (p + q)).to(out.dtype.element_ty), i < D)
    tl.store(lse + head * T + token, top + tl.log(p + q))


@xtarget.kernel(name="d.moe_sum", grid="T, cdiv(D, B)", constants={"B": 32})
@triton.jit
def moe_sum(
    x: In["E", "ROWS", "D"],
    rows: In["int32|int64", "T", "K"],
    weights: In["float32", "T", "K"] | None,
    total: Workspace["float32", "T", "D"],
    out: Out["E", "T", "D"],
    D,
    K: tl.constexpr,
    B: tl.constexpr,
):
    """The rows of a token's experts (below 0: of another machine), weighted and added."""
    token, i = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    tl.store(total + token * D + i, tl.zeros([B], tl.float32), i < D)
    for k in tl.static_range(K):
        row = tl.load(rows + token * K + k)
        v = tl.load(x + row * D + i, (i < D) & (row >= 0), 0).to(tl.float32)
        if weights is not None:
            v *= tl.load(weights + token * K + k)
        tl.store(total + token * D + i, tl.load(total + token * D + i, i < D, 0) + v, i < D)
    result = tl.load(total + token * D + i, i < D, 0)
    tl.store(out + token * D + i, result.to(out.dtype.element_ty), i < D)
