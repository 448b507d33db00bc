#!/usr/bin/env python3
"""Start-up vectors of the kernels, by exact rational arithmetic and nothing of the kernels.

Prints kernels/selftest_vectors.h. Every operation of the contract is computed here as a fraction
and rounded once to binary32 as x86 does with flush-to-zero and denormals-are-zero (tininess
after rounding). The inputs are few and representable in f32, f16 and bf16 alike, so that one set
serves every format. With --check FILE: exit status 1 if FILE is not what would be printed.
"""
import struct
import sys
from fractions import Fraction as F
from math import copysign, inf, isinf, isqrt

# --- binary32 with flushing, on Python floats that hold finite binary32 values ------------------


def bits(x):
    return struct.unpack('<I', struct.pack('<f', x))[0]


def number(u):
    return struct.unpack('<f', struct.pack('<I', u))[0]


def exact(x):
    """The value an operation reads: denormals are zero."""
    return F(0) if abs(x) < 2.0**-126 else F(x)


def exponent_of(q):
    """e with 2^e <= q < 2^(e + 1), q > 0."""
    e = q.numerator.bit_length() - q.denominator.bit_length()
    return e if F(2)**e <= q else e - 1


def nearest(q, digits, least):
    """q > 0 to `digits` significant bits, ties to even, ulp at least 2^least."""
    ulp = F(2)**max(exponent_of(q) - digits + 1, least)
    n, rest = divmod(q, ulp)
    if rest * 2 > ulp or (rest * 2 == ulp and n % 2):
        n += 1
    return n * ulp


def rounded(q, zero=0.0):
    """To binary32; an exact zero has the sign of `zero`."""
    if q == 0:
        return zero
    sign = -1.0 if q < 0 else 1.0
    r = nearest(abs(q), 24, -10000)
    if r < F(2)**-126:
        return copysign(0.0, sign)
    return copysign(inf if r >= F(2)**128 else float(r), sign)


def sign_of(x):
    return copysign(1.0, x)


def add(a, b):
    both = -0.0 if sign_of(a) < 0 and sign_of(b) < 0 else 0.0
    x, y = exact(a), exact(b)
    return rounded(x + y, both if x == 0 and y == 0 else 0.0)


def sub(a, b):
    return add(a, -b)


def mul(a, b):
    return rounded(exact(a) * exact(b), copysign(0.0, sign_of(a) * sign_of(b)))


def fma(a, b, c):
    product = exact(a) * exact(b)
    if product == 0 and exact(c) == 0:
        return -0.0 if sign_of(a) * sign_of(b) < 0 and sign_of(c) < 0 else 0.0
    return rounded(product + exact(c))


def div(a, b):
    return rounded(exact(a) / exact(b), copysign(0.0, sign_of(a) * sign_of(b)))


def sqrt(a):
    q = exact(a)
    if q == 0:
        return a
    scale = 200  # enough bits below the rounding point; sqrt of 24 bits is never a tie
    root = F(isqrt(int(q * F(2)**(2 * scale))), 2**scale)
    if root * root != q:
        root += F(1, 2**(scale + 1))
    return rounded(root)


def const(text):
    return struct.unpack('<f', struct.pack('<f', float.fromhex(text)))[0]


# --- the contract's functions -------------------------------------------------------------------

def to_bf16(x):
    u = bits(x)
    if u & 0x7f800000 == 0:
        return u >> 16 & 0x8000
    if isinf(x):
        return u >> 16
    q = nearest(abs(F(x)), 8, -10000)
    y = copysign(inf if q >= F(2)**128 else float(q), x)
    return bits(y) >> 16


def to_f16(x):
    if x == 0 or isinf(x):
        return struct.unpack('<H', struct.pack('<e', x))[0]
    q = nearest(abs(F(x)), 11, -24)
    y = copysign(inf if q >= 65536 else float(q), x)
    return struct.unpack('<H', struct.pack('<e', y))[0]


def store(x, d):
    if d == 'bf16':
        return number(to_bf16(x) << 16)
    return struct.unpack('<e', struct.pack('<H', to_f16(x)))[0] if d == 'f16' else x


def exp(x):
    magic = const('0x1.8p+23')
    x = -104.0 if x < -104.0 else x
    t = fma(x, const('0x1.715476p+0'), magic)
    n = sub(t, magic)
    r = fma(n, const('-0x1.62e4p-1'), x)
    r = fma(n, const('-0x1.7f7d1cp-20'), r)
    p = const('0x1.6ac144p-10')
    for c in ('0x1.123da6p-7', '0x1.555858p-5', '0x1.55548cp-3', '0x1.fffffcp-2', '0x1p+0',
              '0x1p+0'):
        p = fma(p, r, const(c))
    return mul(p, 2.0**n if n >= -126 else 0.0)


def sigmoid(x):
    e = exp(-abs(x))
    return div(1.0 if x >= 0 else e, add(1.0, e))


def tanh(x):
    a = abs(x)
    if a < 0.625:
        z = mul(a, a)
        q = const('-0x1.750ce4p-8')
        for c in ('0x1.51f8cep-6', '-0x1.b835a4p-5', '0x1.1106f6p-3', '-0x1.555532p-2'):
            q = fma(q, z, const(c))
        y = fma(mul(a, z), q, a)
    else:
        e = exp(mul(-2.0, a))
        y = div(sub(1.0, e), add(1.0, e))
    return copysign(y, x)


def silu(x):
    return mul(x, sigmoid(x))


def gelu(x):
    c, k = const('0x1.6e4e26p-5'), const('0x1.988454p-1')
    inner = mul(mul(k, x), fma(mul(c, x), x, 1.0))
    return mul(mul(0.5, x), add(1.0, tanh(inner)))


def gated_clamped(gate, up, alpha, limit):
    g, u = min(gate, limit), max(min(up, limit), -limit)
    return mul(add(u, 1.0), mul(g, sigmoid(mul(g, alpha))))


def dot(x, w):
    """Panels of 256, pairs in ascending order, the odd element first, odd K completed by 0."""
    total = None
    for begin in range(0, len(x), 256):
        a, b = x[begin:begin + 256], w[begin:begin + 256]
        if len(a) % 2:
            a, b = a + [0.0], b + [0.0]
        s = 0.0
        for p in range(0, len(a), 2):
            s = fma(a[p], b[p], fma(a[p + 1], b[p + 1], s))
        total = s if total is None else add(total, s)
    return total


def fold(lanes, plus=add):
    for distance in (8, 4, 2, 1):
        lanes = [plus(lanes[i], lanes[i + distance]) for i in range(distance)]
    return lanes[0]


def root_mean(squares, n, eps):
    return div(1.0, sqrt(add(div(squares, float(n)), eps)))


def fold_squares(x):
    lanes = [0.0] * 16
    for i, v in enumerate(x):
        lanes[i % 16] = fma(v, v, lanes[i % 16])
    return fold(lanes)


def rmsnorm(x, w, eps, one_plus, d):
    r = root_mean(fold_squares(x), len(x), eps)
    if one_plus:
        return [store(mul(mul(v, r), add(1.0, g)), d) for v, g in zip(x, w)]
    return [store(mul(store(mul(v, r), d), g), d) for v, g in zip(x, w)]


def layernorm(x, w, b, eps, d):
    lanes, squares = [0.0] * 16, [0.0] * 16
    for i, v in enumerate(x):
        lanes[i % 16] = add(lanes[i % 16], v)
    mean = div(fold(lanes), float(len(x)))
    for i, v in enumerate(x):
        c = sub(v, mean)
        squares[i % 16] = fma(c, c, squares[i % 16])
    r = root_mean(fold(squares), len(x), eps)
    return [store(add(mul(mul(sub(v, mean), r), g), h), d) for v, g, h in zip(x, w, b)]


def turn(a, b, c, s, d):
    return store(fma(a, c, -mul(b, s)), d), store(fma(b, c, mul(a, s)), d)


def attention(q, keys, values, first, scale, cap, sink, d):
    """Keys are positions first, first + 1, ..."""
    s = [mul(dot(q, k), scale) for k in keys]
    s = [mul(cap, tanh(div(v, cap))) for v in s] if cap else s
    m = max(s + ([sink] if sink is not None else []))
    p = [exp(sub(v, m)) for v in s]
    lanes = [0.0] * 16
    for j, v in enumerate(p):
        lanes[(first + j) % 16] = add(lanes[(first + j) % 16], v)
    l = fold(lanes)
    l = add(l, exp(sub(sink, m))) if sink is not None else l
    out = []
    for i in range(len(values[0])):
        total, panel, o = None, None, 0.0
        for j, v in enumerate(p):
            if panel is not None and (first + j) // 256 != panel:
                total = o if total is None else add(total, o)
                o = 0.0
            panel = (first + j) // 256
            o = fma(v, values[j][i], o)
        total = o if total is None else add(total, o)
        out.append(store(div(total, l), d))
    return out


# --- inputs, as selftest.c makes them -----------------------------------------------------------

POOL = 61


def make_pool():
    """Numbers of 8 significant bits and exponents -5..2: exact in every format."""
    state, pool = 12345, []
    for _ in range(POOL):
        state = (state * 1103515245 + 12345) % 2**31
        significand = 128 + (state >> 8) % 128
        sign = -1.0 if state >> 20 & 1 else 1.0
        pool.append(sign * significand * 2.0**(-12 + (state >> 23) % 8))
    return pool


POOL_VALUES = make_pool()


def row(n, start, step):
    return [POOL_VALUES[(start + step * i) % POOL] for i in range(n)]


SPECIAL = [number(u) for u in (
    0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7f8000,
    0x7f800000, 0xff800000, 0x3f808000, 0x3f818000, 0x3f808001, 0xbf80ffff, 0x33000000, 0x33000001,
    0xb3800000, 0x387fc000, 0x387fe000, 0x477fefff, 0x477ff000, 0xc7800000, 0x3f801000, 0x3f803000)]

# --- output -------------------------------------------------------------------------------------


def array(name, values):
    words = ['0x%08xu' % (bits(v) if isinstance(v, float) else v) for v in values]
    lines = [', '.join(words[i:i + 7]) for i in range(0, len(words), 7)]
    body = ',\n    '.join(lines)
    return 'static const uint32_t %s[%d] = {\n    %s\n};\n' % (name, len(words), body)


N = 19  # one register and a tail


def row_vectors():
    gate, up = row(N, 3, 7), row(N, 11, 5)
    wide = [mul(v, 3.0) for v in gate]
    out = [array('want_add_bias', [add(a, b) for a, b in zip(gate, up)])]
    for d in ('f32', 'f16', 'bf16'):
        out.append(array('want_round_' + d, [store(v, d) for v in SPECIAL]))
    small = const('0x1.fff8p-64')  # (1 - 2^-13) 2^-63
    tiny = [small, -small, const('0x1.fffp-64'), const('0x1p-63')]
    factor = const('0x1.0008p-63')
    out.append(array('want_tiny_product', [mul(v, factor) for v in tiny]))
    third = const('0x1.555556p-2')
    out.append(array('want_scale', [store(mul(v, third), 'bf16') for v in gate]))
    out.append(array('want_residual', [store(add(a, b), 'bf16') for a, b in zip(gate, up)]))
    out.append(array('want_residual_times', [
        store(add(a, mul(b, third)), 'f16') for a, b in zip(gate, up)]))
    out.append(array('want_silu', [store(mul(silu(g), u), 'bf16') for g, u in zip(wide, up)]))
    out.append(array('want_gelu', [store(mul(gelu(g), u), 'f32') for g, u in zip(gate, up)]))
    eps = const('0x1.4f8b58p-17')
    out.append(array('want_rmsnorm', rmsnorm(gate, up, eps, False, 'bf16')))
    out.append(array('want_rmsnorm_one_plus', rmsnorm(gate, up, eps, True, 'f16')))
    r = root_mean(fold_squares(gate), N, eps)
    out.append(array('want_rmsnorm_once', [mul(mul(v, r), w) for v, w in zip(gate, up)]))
    out.append(array('want_layernorm', layernorm(gate, up, row(N, 29, 3), eps, 'f32')))
    x, c, s = row(2 * N, 17, 9), row(N, 5, 3), row(N, 8, 11)
    halves = [turn(x[i], x[N + i], c[i], s[i], 'f32') for i in range(N)]
    pairs = [turn(x[2 * i], x[2 * i + 1], c[i], s[i], 'bf16') for i in range(N)]
    out.append(array('want_rope_halves', [a for a, _ in halves] + [b for _, b in halves]))
    out.append(array('want_rope_neighbours', [v for p in pairs for v in p]))
    out.append(array('want_softcap', [mul(5.0, tanh(div(v, 5.0))) for v in wide]))
    out.append(array('want_accumulate', [fma(third, u, g) for g, u in zip(gate, up)]))
    out.append(array('want_gated_clamped', [
        store(gated_clamped(g, u, 1.75, 2.5), 'bf16') for g, u in zip(wide, up)]))
    out.append(array('want_exp_below', [exp(sub(v, max(wide))) for v in wide]))
    out.append(array('want_sigmoid', [sigmoid(v) for v in wide]))
    lanes = [0.0] * 16  # binary64: Python's own addition
    for i, v in enumerate(wide):
        lanes[i % 16] += exp(sub(v, max(wide)))
    total = struct.unpack('<II', struct.pack('<d', fold(lanes, lambda a, b: a + b)))
    out.append(array('want_sum_exp', list(total)))
    return out


K, OUTPUTS = 259, 17


def product_vectors():
    rows = [row(K, 3 * r, 7) for r in range(2)]
    weights = [row(K, 11 * n, 5) for n in range(OUTPUTS)]
    out = [array('want_matmul', [dot(x, w) for x in rows for w in weights])]
    # 2^-126 from the odd element, then 2^-126 (1 - 2^-24), (1 - 2^-25), (1 - 2^-26)
    least = fma(2.0**-63, 2.0**-63, 0.0)
    out.append(array('want_tiny_matmul', [fma(2.0**-75, -2.0**-e, least) for e in (75, 76, 77)]))
    return out


K_DIM, V_DIM, FIRST, QUERIES, WINDOW = 7, 19, 251, 2, 12


def attention_vectors():
    out = []
    for d, cap, sink in (('f32', 0.0, None), ('f16', 3.0, None), ('bf16', 0.0, 0.5)):
        got = []
        for i in range(QUERIES):
            pos = FIRST + WINDOW + i
            seen = range(pos - WINDOW, pos + 1)
            keys = [row(K_DIM, 5 * j, 3) for j in seen]
            values = [row(V_DIM, 7 * j, 2) for j in seen]
            q = row(K_DIM, 13 * i, 4)
            got += attention(q, keys, values, seen[0], 0.25, cap, sink, d)
        out.append(array('want_attention_' + d, got))
    return out


HEADER = '''/* Start-up vectors, written by mpi_tests/kernel/make_vectors.py: do not edit.
 * Bits of binary32 numbers, computed with exact fractions and not by any kernel. The inputs
 * they belong to are made by selftest.c from `pool` and `special`. Layer: kernels, internal. */
#ifndef LS_KERNELS_SELFTEST_VECTORS_H
#define LS_KERNELS_SELFTEST_VECTORS_H

#include <stdint.h>

/* clang-format off */
'''


def main():
    parts = [array('pool', POOL_VALUES), array('special', SPECIAL)]
    parts.append(array('special_bf16', [to_bf16(v) for v in SPECIAL]))
    parts.append(array('special_f16', [to_f16(v) for v in SPECIAL]))
    parts += row_vectors() + product_vectors() + attention_vectors()
    text = HEADER + '\n'.join(parts) + '/* clang-format on */\n\n#endif\n'
    if len(sys.argv) == 3 and sys.argv[1] == '--check':
        with open(sys.argv[2], encoding='utf-8') as f:
            same = f.read() == text
        print('the vectors are those of this script' if same else 'the vectors differ')
        sys.exit(0 if same else 1)
    sys.stdout.write(text)


if __name__ == '__main__':
    main()
