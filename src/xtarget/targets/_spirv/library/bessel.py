"""Bessel's functions of integer order, `jn` and `yn` of NVIDIA's libdevice, by recurrence.

Upwards from orders 0 and 1 where that is stable: Y always, J for orders below the argument. Else J
comes down from an order where it has vanished, and J0 + 2 (J2 + J4 + ...) = 1 gives its size. All
in double. Errors: as those of orders 0 and 1, a few units in the last place of the larger of value
and sqrt(2/(pi x)). A negative order gives NaN, as NVIDIA says.
"""

from __future__ import annotations

import re

from .helpers import builtin, function

__all__ = ["define"]

_NAME = re.compile(r"__nv_([jy])n(f?)")
_NAN = "0x7FF8000000000000"
_INFINITY = "0x7FF0000000000000"


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if it is none of these."""
    if name in ("xt.bessel.j", "xt.bessel.y"):
        body = _FIRST if name.endswith("j") else _SECOND
        return function(name, "double", "i32 %n, double %x", body)
    match = _NAME.fullmatch(name)
    if not match:
        return None
    call = f"%r = call double @xt.bessel.{match[1]}(i32 %n, double %x)"
    if not match[2]:
        return function(name, "double", "i32 %n, double %x", call, "ret double %r")
    lines = ["%x = fpext float %a to double", call, "%f = fptrunc double %r to float"]
    return function(name, "float", "i32 %n, float %a", *lines, "ret float %f")


#: Ends early where it is infinite or NaN.
_SECOND = f"""entry:
    %zero = call double @__ocml_y0_f64(double %x)
    %one = call double @__ocml_y1_f64(double %x)
    br label %loop
    loop:
    %k = phi i32 [ 1, %entry ], [ %k.next, %step ]
    %before = phi double [ %zero, %entry ], [ %last, %step ]
    %last = phi double [ %one, %entry ], [ %next, %step ]
    %more = icmp slt i32 %k, %n
    %finite = fcmp ogt double %last, 0xFFF0000000000000
    %go = and i1 %more, %finite
    br i1 %go, label %step, label %end
    step:
    %k.f = sitofp i32 %k to double
    %k.2 = fmul double %k.f, 2.0
    %ratio = fdiv double %k.2, %x
    %product = fmul double %ratio, %last
    %next = fsub double %product, %before
    %k.next = add i32 %k, 1
    br label %loop
    end:
    %is0 = icmp eq i32 %n, 0
    %value = select i1 %is0, double %zero, double %last
    %bad = icmp slt i32 %n, 0
    %r = select i1 %bad, double {_NAN}, double %value
    ret double %r"""

#: `small`: the series' first term, (x/2)^n / n!. `down`: from an order that is sqrt(160 n) above;
#: all is scaled before it overflows, by 2^-660. J is 0 in double from order 2000 above 2 x on.
_FIRST = f"""entry:
    %size = {builtin("fabs", "double", "double %x")}
    %n.f = sitofp i32 %n to double
    %zero = call double @__ocml_j0_f64(double %size)
    %one = call double @__ocml_j1_f64(double %size)
    %low = icmp slt i32 %n, 2
    %above = fcmp ogt double %size, %n.f
    %simple = or i1 %low, %above
    %is0 = icmp eq i32 %n, 0
    br i1 %simple, label %up, label %other
    up:
    %u.k = phi i32 [ 1, %entry ], [ %u.k.next, %up.step ]
    %before = phi double [ %zero, %entry ], [ %last, %up.step ]
    %last = phi double [ %one, %entry ], [ %next, %up.step ]
    %u.more = icmp slt i32 %u.k, %n
    %u.end = fcmp olt double %size, {_INFINITY}
    %u.go = and i1 %u.more, %u.end
    br i1 %u.go, label %up.step, label %up.done
    up.step:
    %u.f = sitofp i32 %u.k to double
    %u.2 = fmul double %u.f, 2.0
    %u.ratio = fdiv double %u.2, %size
    %u.product = fmul double %u.ratio, %last
    %next = fsub double %u.product, %before
    %u.k.next = add i32 %u.k, 1
    br label %up
    up.done:
    %upwards = select i1 %is0, double %zero, double %last
    br label %end
    other:
    %square = fmul double %size, %size
    %tiny = fmul double %n.f, 0x3CB0000000000000
    %small = fcmp ole double %square, %tiny
    br i1 %small, label %power, label %large
    power:
    %p.k = phi i32 [ 1, %other ], [ %p.k.next, %power.step ]
    %p = phi double [ 1.0, %other ], [ %p.next, %power.step ]
    %p.more = icmp sle i32 %p.k, %n
    %p.some = fcmp ogt double %p, 0.0
    %p.go = and i1 %p.more, %p.some
    br i1 %p.go, label %power.step, label %end
    power.step:
    %p.f = sitofp i32 %p.k to double
    %p.2 = fmul double %p.f, 2.0
    %p.part = fmul double %p, %size
    %p.next = fdiv double %p.part, %p.2
    %p.k.next = add i32 %p.k, 1
    br label %power
    large:
    %double = fmul double %size, 2.0
    %steep = fcmp ogt double %n.f, %double
    %high = icmp sgt i32 %n, 2000
    %vanished = and i1 %steep, %high
    %number = fcmp ord double %size, 0.0
    %absent = xor i1 %number, true
    %done = or i1 %vanished, %absent
    br i1 %done, label %end, label %down.first
    down.first:
    %n.160 = fmul double %n.f, 160.0
    %root = {builtin("sqrt", "double", "double %n.160")}
    %extra = fptosi double %root to i64
    %n.l = sext i32 %n to i64
    %m.any = add i64 %n.l, %extra
    %m.even = and i64 %m.any, -2
    %m = add i64 %m.even, 2
    br label %down
    down:
    %k = phi i64 [ %m, %down.first ], [ %below, %down ]
    %upper = phi double [ 0.0, %down.first ], [ %upper.next, %down ]
    %here = phi double [ 1.0, %down.first ], [ %here.next, %down ]
    %sum = phi double [ 0.0, %down.first ], [ %sum.next, %down ]
    %found = phi double [ 0.0, %down.first ], [ %found.next, %down ]
    %k.f = sitofp i64 %k to double
    %k.2 = fmul double %k.f, 2.0
    %ratio = fdiv double %k.2, %size
    %product = fmul double %ratio, %here
    %value = fsub double %product, %upper
    %below = sub i64 %k, 1
    %odd = and i64 %below, 1
    %even = icmp eq i64 %odd, 0
    %is.last = icmp eq i64 %below, 0
    %weight.even = select i1 %is.last, double 1.0, double 2.0
    %weight = select i1 %even, double %weight.even, double 0.0
    %part = fmul double %weight, %value
    %sum.now = fadd double %sum, %part
    %is.n = icmp eq i64 %below, %n.l
    %found.now = select i1 %is.n, double %value, double %found
    %amount = {builtin("fabs", "double", "double %value")}
    %big = fcmp ogt double %amount, 0x6930000000000000
    %scale = select i1 %big, double 0x16B0000000000000, double 1.0
    %upper.next = fmul double %here, %scale
    %here.next = fmul double %value, %scale
    %sum.next = fmul double %sum.now, %scale
    %found.next = fmul double %found.now, %scale
    br i1 %is.last, label %down.done, label %down
    down.done:
    %downwards = fdiv double %found.next, %sum.next
    br label %end
    end:
    %of.size = phi double [ %upwards, %up.done ], [ %p, %power ],\
 [ 0.0, %large ], [ %downwards, %down.done ]
    %infinite = fcmp oeq double %size, {_INFINITY}
    %limited = select i1 %infinite, double 0.0, double %of.size
    %unordered = fcmp uno double %x, %x
    %known = select i1 %unordered, double %x, double %limited
    %minus = fneg double %known
    %n.odd = and i32 %n, 1
    %is.odd = icmp eq i32 %n.odd, 1
    %left = fcmp olt double %x, 0.0
    %flip = and i1 %left, %is.odd
    %signed = select i1 %flip, double %minus, double %known
    %bad = icmp slt i32 %n, 0
    %r = select i1 %bad, double {_NAN}, double %signed
    ret double %r"""
