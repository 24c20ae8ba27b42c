"""A kernel as basic blocks of steps, and the way of waves through them.

Waves that stand at the same block are stepped together. The ones furthest behind go first, so
waves that a branch parted meet again where their ways join; now and then the ones that have waited
longest do, so that one which waits for a lock does not keep its holder from giving it back.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from xtarget._values.errors import KernelFault

from .branches import BRANCHES, Condition, condition, loops_over, target
from .decode import Instruction
from .group import Group
from .memory import Fault, Unknown
from .operands import scalar_put
from .retries import with_swaps
from .steps import MODES, NOTHING, step_of
from .valu import Step
from .waves import SGPR, Waves

__all__ = ["Program"]

#: Leads to an address in a register.
_JUMPS = ("s_swappc_b64", "s_setpc_b64")
_ENDS = {"s_endpgm", "s_endpgm_saved", "s_barrier", "s_barrier_wait", *BRANCHES, *_JUMPS}
#: Every so many turns the waves that have stood longest get one.
_FAIR = 32
#: In a kernel with locks they get one after so many turns around a loop, and go on as long as they
#: go forward.
_PATIENCE = 4
#: Blocks that went around loops so many times, while none ended, get company.
_STUCK = 500
#: The place behind the last block.
_END = -1


class Block:
    """Instructions without a branch, and what comes after them.

    Attributes:
        steps: of all but a branch at the end; None until waves come here for the first time.
    """

    __slots__ = ("address", "instructions", "last", "next", "steps", "target", "test")

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.steps: list[Step] | None = None
        self.last = ""
        self.next = _END
        self.target = _END
        self.test: Condition | None = None
        self.address = 0


class Program:
    """The decoded code of one kernel, and of the functions that it calls.

    Args:
        instructions: in the order of their addresses.
        base: where in the device's memory the address 0 is.

    Attributes:
        blocks: in the order of their addresses.
        atomic: there are atomic operations on global memory.
        waits: it may wait for another block (see `loops_over`).
    """

    def __init__(
        self, name: str, arch: str, instructions: list[Instruction], base: int = 0
    ) -> None:
        self.name, self.arch, self._base = name, arch, base
        instructions = with_swaps(instructions)
        self.blocks: list[Block] = []
        self._by_address: dict[int, int] = {}
        self.atomic = any("_atomic_" in i.mnemonic for i in instructions)
        self._clamps = any(i.mnemonic in MODES for i in instructions)
        self.waits = loops_over(instructions)
        self._split(instructions)
        self._staggered = self._has_extra_barrier()

    def _split(self, instructions: list[Instruction]) -> None:
        starts = {instructions[0].address}
        for ins in instructions:
            after = ins.address + ins.size
            if ins.mnemonic in _ENDS:
                starts.add(after)
            if ins.mnemonic in BRANCHES:
                starts.add(target(ins))
        block: Block | None = None
        after = instructions[0].address
        for ins in instructions:
            starts |= {ins.address} if ins.address != after else set()
            after = ins.address + ins.size
            if ins.address in starts or block is None:
                if block is not None and block.last == "":
                    block.next = len(self.blocks)
                block = Block()
                block.address = ins.address
                self._by_address[ins.address] = len(self.blocks)
                self.blocks.append(block)
            if ins.mnemonic in _ENDS:
                block.last = ins.mnemonic
                block.test = condition(ins)
                block.next = len(self.blocks)
            block.instructions.append(ins)
        for number, block in enumerate(self.blocks):
            last = block.instructions[-1]
            if last.mnemonic in BRANCHES:
                block.target = self._by_address.get(target(last), _END)
            if block.last == "" and number + 1 == len(self.blocks):
                block.next = _END

    def _has_extra_barrier(self) -> bool:
        """Does a branch lead around nothing but a barrier? So Triton gives some warps a head start
        of one ("ping-pong"), and the others the same number in the end."""
        return any(
            before.test is not None
            and before.target == number + 2
            and block.last == "s_barrier"
            and all(i.mnemonic in NOTHING for i in block.instructions[:-1])
            for number, (before, block) in enumerate(pairwise(self.blocks))
        )

    def start(self, address: int) -> int:
        """The block at an address."""
        return self._by_address[address]

    # ------------------------------------------------------------------------------------- running

    def run(
        self, waves: Waves, budget: int, more: Callable[[], Waves | None] = lambda: None
    ) -> int:
        """Run waves to their end; returns the number of lane-instructions.

        Args:
            more: gives waves of further blocks of the grid, for which the present ones may wait.

        Raises:
            KernelFault: what the kernel did wrong, where.
        """
        running: list[Waves] = [waves]
        waiting: list[Waves] = []
        spent = turns = back = stuck = 0
        alone = False
        lanes = waves.lanes
        with np.errstate(all="ignore"):
            while running or waiting:
                if not running:
                    running, waiting = self._release(waiting)
                    continue
                turns += 1
                if self.waits and back >= _PATIENCE and waiting:
                    ready, waiting = self._complete(waiting)
                    running += ready
                if stuck >= _STUCK:
                    another, stuck = more(), 0
                    running += [another] if another is not None else []
                if alone:
                    here = len(running) - 1
                elif turns % _FAIR == 0 or (self.waits and back >= _PATIENCE):
                    here, alone = 0, self.waits
                else:
                    here = min(range(len(running)), key=lambda i: running[i].pc)
                w = running.pop(here)
                same = [
                    r for r in running if r.pc == w.pc and r.state == w.state and r.group is w.group
                ]
                if same:
                    running = [r for r in running if not any(r is s for s in same)]
                    w = Waves.join([w, *same])
                place, others = w.pc, len(running)
                block = self.blocks[place]
                self._block(w, block)
                spent += len(block.instructions) * w.count * lanes
                if spent > budget:
                    raise KernelFault(
                        f"{self.name} on {self.arch} was stopped after {spent:,} lane-instructions,"
                        f" at 0x{block.address:x}: it does not end, or waits for another block (no "
                        "two of a grid need to run at the same time, unless it is launched "
                        "cooperatively), or needs a larger budget (XTARGET_EMULATOR_BUDGET)."
                    )
                self._after(w, block, running, waiting)
                goes_back = any(r.pc <= place for r in running[others:])
                stuck = stuck + goes_back if self.waits and block.last != "s_endpgm" else 0
                if alone:
                    alone = len(running) == others + 1 and not goes_back
                    back = 0
                else:
                    back += goes_back
        return spent

    def _block(self, w: Waves, block: Block) -> None:
        index = 0
        steps = block.steps
        if steps is None:
            kept = [i for i in block.instructions if i.mnemonic not in _ENDS]
            steps = block.steps = [self._step(i) for i in kept]
        try:
            for index, step in enumerate(steps):  # noqa: B007
                step(w)
        except Fault as fault:
            raise self._fault(w, block.instructions[index], fault) from None
        except IndexError as error:
            beyond = Fault("uses a register beyond those that the kernel has")
            raise self._fault(w, block.instructions[index], beyond) from error

    def _step(self, ins: Instruction) -> Step:
        if ins.mnemonic != "s_getpc_b64":
            return step_of(ins, self._clamps)
        put = scalar_put(ins, ins.fields["sdst"], "u64")
        here = np.array([[self._base + ins.address + ins.size]], np.uint64)
        writes = (SGPR + ins.fields["sdst"], SGPR + ins.fields["sdst"] + 1)

        def step(w: Waves) -> None:
            put(w, here)
            for register in writes:
                w.undefined.pop(register, None)

        return step

    def _fault(self, w: Waves, ins: Instruction, fault: Fault) -> KernelFault:
        who = ""
        if fault.lane is not None:
            wave, lane = divmod(fault.lane, w.lanes) if fault.lane < w.count * w.lanes else (0, 0)
            x, y, z = (int(c) for c in w.group.blocks[w.block[wave]])
            warp = int(w.numbers[wave]) % w.group.waves_per_block
            who = f", block ({x}, {y}, {z}), warp {warp}, lane {lane}"
        origin = w.group.told_blank_loads() if isinstance(fault, Unknown) else ""
        return KernelFault(f"{self.name} on {self.arch}{who}: {ins} {fault.text}{origin}.")

    def _after(self, w: Waves, block: Block, running: list[Waves], waiting: list[Waves]) -> None:
        """Put waves where the end of a block leads them."""
        if block.last.startswith("s_endpgm"):
            return
        if block.last in _JUMPS:
            running.extend(self._jump(w, block))
            return
        if block.last in ("s_barrier", "s_barrier_wait"):
            w.at_barrier, w.pc = w.pc, block.next
            if block.last == "s_barrier_wait" and not w.signalled:
                raise self._fault(
                    w, block.instructions[-1], Fault("waits at a barrier without a signal", 0)
                )
            w.signalled = False
            waiting.append(w)
            return
        if block.test is None:
            w.pc = block.target if block.last == "s_branch" else block.next
            running.append(self._valid(w, block))
            return
        try:
            taken = block.test(w)
        except Unknown as fault:
            raise self._fault(w, block.instructions[-1], fault) from None
        if taken.all():
            w.pc = block.target
            running.append(self._valid(w, block))
        elif not taken.any():
            w.pc = block.next
            running.append(self._valid(w, block))
        else:
            for which, pc in ((taken, block.target), (~taken, block.next)):
                part = w.take(which)
                part.pc = pc
                running.append(self._valid(part, block))

    def _jump(self, w: Waves, block: Block) -> list[Waves]:
        """Waves where a call or a return leads them."""
        ins = block.instructions[-1]
        source, after = ins.fields["ssrc0"], self._base + ins.address + ins.size
        try:
            w.demand((SGPR + source, SGPR + source + 1), "as the place to go on at", True)
        except Fault as fault:
            raise self._fault(w, ins, fault) from None
        to = w.s[source] | w.s[source + 1].astype(np.int64) << 32
        if block.last == "s_swappc_b64":
            for i in (0, 1):
                w.s[ins.fields["sdst"] + i] = after >> 32 * i & 0xFFFFFFFF
                w.undefined.pop(SGPR + ins.fields["sdst"] + i, None)
        parts = []
        for address in np.unique(to):
            which = to == address
            part = w if which.all() else w.take(which)
            part.pc = self._by_address.get(int(address) - self._base, _END)
            parts.append(self._valid(part, block))
        return parts

    def _valid(self, w: Waves, block: Block) -> Waves:
        if not 0 <= w.pc < len(self.blocks):
            raise KernelFault(
                f"{self.name} on {self.arch}: the code at 0x{block.address:x} leads to an address "
                "that is none of its instructions."
            )
        return w

    def _complete(self, waiting: list[Waves]) -> tuple[list[Waves], list[Waves]]:
        """Waves that may go on, as all of their blocks stand at a barrier, and the others."""
        ready: list[Waves] = []
        left: list[Waves] = []
        for group in {id(w.group): w.group for w in waiting}.values():
            here = [w for w in waiting if w.group is group]
            blocks, count = np.unique(np.concatenate([w.block for w in here]), return_counts=True)
            whole = blocks[count == group.waves_per_block]
            for w in here:
                go = np.isin(w.block, whole)
                if go.all() or not go.any():
                    (ready if go.all() else left).append(w)
                    continue
                for those, to in ((go, ready), (~go, left)):
                    to.append(w.take(those))
        if ready:
            self._release(ready)
        return ready, left

    def _release(self, waiting: list[Waves]) -> tuple[list[Waves], list[Waves]]:
        """Let blocks go on whose waves all stand at one barrier."""
        for group in {id(w.group): w.group for w in waiting}.values():
            self._release_group(group, [w for w in waiting if w.group is group])
        return waiting, []

    def _release_group(self, group: Group, waiting: list[Waves]) -> None:
        place: dict[int, set[int]] = {}
        count: dict[int, int] = {}
        for w in waiting:
            for block in w.block.tolist():
                place.setdefault(block, set()).add(w.at_barrier)
                count[block] = count.get(block, 0) + 1
        for block, places in place.items():
            x, y, z = (int(c) for c in group.blocks[block])
            where = sorted(f"0x{self.blocks[p].instructions[-1].address:x}" for p in places)
            if len(places) > 1 and not self._staggered:
                raise KernelFault(
                    f"{self.name} on {self.arch}, block ({x}, {y}, {z}): its warps wait at "
                    f"different barriers, {' and '.join(where)}."
                )
            if count[block] != group.waves_per_block:
                raise KernelFault(
                    f"{self.name} on {self.arch}, block ({x}, {y}, {z}): {count[block]} of "
                    f"{group.waves_per_block} warps wait at the barrier at {where[0]}, and the "
                    "others have ended."
                )
        if group.races is not None:
            group.races.barrier(np.fromiter(place, int))
        group.lds_blank_left = bool(group.lds_blank.any())
