"""Leases in memory, and what every LeaseSource must do.

The suite is a plain class: subclass it in a test module and define the fixtures that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roofsmith.ports import Holder, Lease, LeaseSource
from roofsmith.testing.fleet import fake_uuid


@dataclass(slots=True)
class MemoryHost:
    """Who has leased what, as the file system knows it."""

    holders: dict[str, str] = field(default_factory=dict)
    """Process by UUID."""


@dataclass(slots=True)
class MemoryLeases:
    """Port `LeaseSource` of one process on a host in memory."""

    host: MemoryHost = field(default_factory=MemoryHost)
    process: str = "pid 1 (test): roofsmith test, since 00:00 UTC"
    _depth: dict[str, int] = field(default_factory=dict)

    def take(self, uuid: str) -> MemoryLease | Holder:
        """Lease a GPU, or hear who holds it."""
        holder = self.host.holders.setdefault(uuid, self.process)
        if holder != self.process:
            return Holder(uuid, holder)
        self._depth[uuid] = self._depth.get(uuid, 0) + 1
        return MemoryLease(uuid, self)

    def held(self) -> frozenset[str]:
        """GPUs that this process holds."""
        return frozenset(uuid for uuid, depth in self._depth.items() if depth)

    def give_back(self, uuid: str) -> None:
        """One release."""
        self._depth[uuid] -= 1
        if not self._depth[uuid]:
            del self.host.holders[uuid]


@dataclass(slots=True)
class MemoryLease:
    """Port `Lease` in memory."""

    uuid: str
    _leases: MemoryLeases
    _released: bool = False

    def release(self) -> None:
        """Once."""
        if not self._released:
            self._released = True
            self._leases.give_back(self.uuid)


class LeaseSuite:
    """What every LeaseSource does; fixtures: `ours`, and `theirs` of another process."""

    def test_who_takes_it_first_has_it(self, ours: LeaseSource, theirs: LeaseSource) -> None:
        """The other one hears of a holder."""
        lease = taken(ours, 0)
        found = theirs.take(lease.uuid)
        assert isinstance(found, Holder)
        assert found.uuid == lease.uuid
        assert found.who
        lease.release()
        taken(theirs, 0).release()

    def test_gpus_are_leased_one_by_one(self, ours: LeaseSource, theirs: LeaseSource) -> None:
        """Another GPU is another lease."""
        first, second = taken(ours, 0), taken(theirs, 1)
        assert ours.held() == {first.uuid}
        first.release()
        second.release()

    def test_the_last_release_counts(self, ours: LeaseSource, theirs: LeaseSource) -> None:
        """A second release of the same lease does nothing."""
        outer, inner = taken(ours, 0), taken(ours, 0)
        inner.release()
        inner.release()
        assert isinstance(theirs.take(outer.uuid), Holder)
        outer.release()
        assert not ours.held()
        taken(theirs, 0).release()


def taken(leases: LeaseSource, index: int) -> Lease:
    """The lease of the simulated GPU with this number, which nobody else holds."""
    found = leases.take(fake_uuid(index))
    assert not isinstance(found, Holder), f"somebody holds it: {found.who}"
    return found
