"""AMD's intrinsics that read an index, synchronise or compute, through OpenCL's functions.

Those that move values between lanes are in `crosslane`.
"""

from __future__ import annotations

from .helpers import builtin, function, named_byte, of_row

__all__ = ["define"]

#: Barrier over shared and global memory: CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE.
_FENCE = 3
#: More sub-groups than any block has.
_MAX_WARPS = 1024


def _median(type_: str, suffix: str) -> tuple[str, str, str]:
    """The row of the table for the middle one of three numbers."""
    low, high = f"call {type_} @llvm.minnum.{suffix}", f"call {type_} @llvm.maxnum.{suffix}"
    return (
        type_,
        f"{type_} %a, {type_} %b, {type_} %c",
        f"""%low = {low}({type_} %a, {type_} %b)
        %high = {high}({type_} %a, {type_} %b)
        %cut = {low}({type_} %high, {type_} %c)
        %r = {high}({type_} %low, {type_} %cut)""",
    )


#: The products of two pairs of floats %x and %y, added to %c.
_PRODUCTS = """%x0 = extractelement <2 x float> %x, i32 0
        %x1 = extractelement <2 x float> %x, i32 1
        %y0 = extractelement <2 x float> %y, i32 0
        %y1 = extractelement <2 x float> %y, i32 1
        %s = call float @llvm.fma.f32(float %x0, float %y0, float %c)
        %r = call float @llvm.fma.f32(float %x1, float %y1, float %s)"""

#: intrinsic: (result, parameters, what it computes)
_TABLE: dict[str, tuple[str, str, str]] = {
    # --- numeric functions of limited accuracy -------------------------------------------------
    "sqrt.f32": ("float", "float %x", f"%r = {builtin('sqrt', 'float', 'float %x')}"),
    "rsq.f32": ("float", "float %x", f"%r = {builtin('rsqrt', 'float', 'float %x')}"),
    "exp2.f32": ("float", "float %x", f"%r = {builtin('exp2', 'float', 'float %x')}"),
    "log.f32": ("float", "float %x", f"%r = {builtin('log2', 'float', 'float %x')}"),
    "tanh.f32": ("float", "float %x", f"%r = {builtin('tanh', 'float', 'float %x')}"),
    "rcp.f32": ("float", "float %x", "%r = fdiv float 1.0, %x"),
    "rcp.f64": ("double", "double %x", "%r = fdiv double 1.0, %x"),
    "rsq.f64": ("double", "double %x", f"%r = {builtin('rsqrt', 'double', 'double %x')}"),
    "fmed3.f32": _median("float", "f32"),
    "fmed3.f16": _median("half", "f16"),
    "cvt.pkrtz": (
        "<2 x half>",
        "float %a, float %b",
        # towards zero: one step back where rounding to nearest went away from it
        "\n".join(
            f"""%near{x} = fptrunc float %{x} to half
            %back{x} = fpext half %near{x} to float
            %size{x} = call float @llvm.fabs.f32(float %{x})
            %far{x} = call float @llvm.fabs.f32(float %back{x})
            %away{x} = fcmp ogt float %far{x}, %size{x}
            %step{x} = sext i1 %away{x} to i16
            %bits{x} = bitcast half %near{x} to i16
            %cut{x} = add i16 %bits{x}, %step{x}
            %half{x} = bitcast i16 %cut{x} to half"""
            for x in "ab"
        )
        + """
        %one = insertelement <2 x half> poison, half %halfa, i32 0
        %r = insertelement <2 x half> %one, half %halfb, i32 1""",
    ),
    # --- dot products of short vectors ---------------------------------------------------------
    "fdot2": (
        "float",
        "<2 x half> %a, <2 x half> %b, float %c, i1 %clamp",
        f"""%x = fpext <2 x half> %a to <2 x float>
        %y = fpext <2 x half> %b to <2 x float>
        {_PRODUCTS}""",
    ),
    "fdot2.f32.bf16": (
        "float",
        "<2 x i16> %a, <2 x i16> %b, float %c, i1 %clamp",
        f"""%x = call <2 x float> @xt.bf16.extend.v2(<2 x i16> %a)
        %y = call <2 x float> @xt.bf16.extend.v2(<2 x i16> %b)
        {_PRODUCTS}""",
    ),
    "fdot2.bf16.bf16": (
        "i16",
        "<2 x i16> %a, <2 x i16> %b, i16 %c",
        """%start = call float @xt.bf16.extend(i16 %c)
        %sum = call float \
@xt.amdgcn.fdot2.f32.bf16(<2 x i16> %a, <2 x i16> %b, float %start, i1 false)
        %r = call i16 @xt.bf16.truncate(float %sum)""",
    ),
    # --- bytes ---------------------------------------------------------------------------------
    "perm": (
        "i32",
        "i32 %a, i32 %b, i32 %selectors",
        # each byte of the selectors names a byte of a:b, or above 12 the constant 255
        "%az = zext i32 %a to i64\n%bz = zext i32 %b to i64\n%ah = shl i64 %az, 32\n"
        "%ab = or i64 %ah, %bz\n%sum0 = add i32 0, 0\n"
        + "".join(
            f"""%s{i} = lshr i32 %selectors, {8 * i}
            {named_byte(i, "%ab", f"%s{i}")}
            %k{i} = and i32 %s{i}, 255
            %ones{i} = icmp ugt i32 %k{i}, 12
            %constant{i} = select i1 %ones{i}, i32 255, i32 0
            %named{i} = icmp ult i32 %k{i}, 8
            %pick{i} = select i1 %named{i}, i32 %byte{i}, i32 %constant{i}
            %at{i} = shl i32 %pick{i}, {8 * i}
            %sum{i + 1} = or i32 %sum{i}, %at{i}
            """
            for i in range(4)
        )
        + "%r = add i32 %sum4, 0",
    ),
}

for _name, _extend in (("sdot4", "sext"), ("udot4", "zext")):
    _TABLE[_name] = (
        "i32",
        "i32 %a, i32 %b, i32 %c, i1 %clamp",
        "%va = bitcast i32 %a to <4 x i8>\n%vb = bitcast i32 %b to <4 x i8>\n%s0 = add i32 %c, 0\n"
        + "".join(
            f"""%a{i} = extractelement <4 x i8> %va, i32 {i}
            %b{i} = extractelement <4 x i8> %vb, i32 {i}
            %x{i} = {_extend} i8 %a{i} to i32
            %y{i} = {_extend} i8 %b{i} to i32
            %p{i} = mul i32 %x{i}, %y{i}
            %s{i + 1} = add i32 %s{i}, %p{i}
            """
            for i in range(4)
        )
        + "%r = add i32 %s4, 0",
    )

#: Hints and waits of AMD's hardware, and the mode register's overflow bit of fp8 conversions, which
#: are done in software here: intrinsic: parameters.
_NOTHING = {
    "s.waitcnt": "i32 %0",
    "s.wait.dscnt": "i16 %0",
    "s.wait.loadcnt": "i16 %0",
    "s.wait.storecnt": "i16 %0",
    "s.sleep": "i32 %0",
    "s.setprio": "i16 %0",
    "s.setreg": "i32 %0, i32 %1",
    "s.barrier.signal": "i32 %0",
    "sched.barrier": "i32 %0",
    "sched.group.barrier": "i32 %0, i32 %1, i32 %2",
}

_BARRIERS = {
    "s.barrier": ("", "barrier"),
    "s.barrier.wait": ("i16 %0", "barrier"),
    "wave.barrier": ("", "sub_group_barrier"),
}

_AXES = {"x": 0, "y": 1, "z": 2}


def define(name: str, warp_size: int) -> str | None:
    """The definition of `name`, None if it is none of these."""
    if name == "__ockl_get_num_groups":
        groups = builtin("get_num_groups", "i64", "u32 %axis")
        return function(name, "i64", "i32 %axis", f"%r = {groups}", "ret i64 %r")
    if not name.startswith("xt.amdgcn."):
        return None
    short = name.removeprefix("xt.amdgcn.")
    if short in _TABLE:
        return of_row(name, _TABLE[short])
    if short in _NOTHING:
        return function(name, "void", _NOTHING[short], "ret void")
    if short in _BARRIERS:
        parameters, barrier = _BARRIERS[short]
        call = builtin(barrier, "void", f"u32 {_FENCE}")
        return function(name, "void", parameters, call, "ret void", convergent=True)
    if short.startswith("workgroup.id.") and short[-1] in _AXES:
        group = builtin("get_group_id", "i64", f"u32 {_AXES[short[-1]]}")
        body = f"%g = {group}\n%r = trunc i64 %g to i32"
        return function(name, "i32", "", body, "ret i32 %r")
    if short == "wave.id":
        return function(name, "i32", "", f"%r = {builtin('get_sub_group_id', 'i32')}", "ret i32 %r")
    if short == "workitem.id.x":
        return _thread_id(name, warp_size)
    return None


def _thread_id(name: str, warp_size: int) -> str:
    """The thread's index from sub-group and lane, not from `get_local_id`.

    That tells the device's compiler what is the same for all lanes and what has unit stride (add on
    a CPU: 2.1 x as fast), and agrees with the shuffles by construction.
    """

    def ranged(call: str, end: int) -> str:
        return call.replace("call spir_func i32", f"call spir_func range(i32 0, {end}) i32")

    return function(
        name,
        "i32",
        "",
        f"%lane = {ranged(builtin('get_sub_group_local_id', 'i32'), warp_size)}",
        f"%warp = {ranged(builtin('get_sub_group_id', 'i32'), _MAX_WARPS)}",
        f"%first = mul nuw nsw i32 %warp, {warp_size}",
        "%r = add nuw nsw i32 %first, %lane",
        "ret i32 %r",
    )
