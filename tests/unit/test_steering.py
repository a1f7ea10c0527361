"""A campaign that runs is stopped, and gets other limits: by command, and by a page that may."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from steered import steered
from test_web import Site, serving

from roofsmith import api
from roofsmith.api import steering
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.ending import Wishes
from roofsmith.domain.options import SessionLimits
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import StopPolicy
from roofsmith.errors import UsageError
from roofsmith.machine.lock_files import lock_name
from roofsmith.machine.seats import QueuePlace, Seat, turn_of
from roofsmith.store.campaign_dir import CampaignDirectory, ask
from roofsmith.web.serving import TOKEN


def test_a_campaign_gets_more_rounds_and_ends_after_the_one_it_is_at(tmp_path: Path) -> None:
    with steered(tmp_path / "run") as run:
        with pytest.raises(UsageError, match="must be less than 120"):
            api.limit(run.directory, SessionLimits(max_iterations=500))
        with pytest.raises(UsageError, match="no limit is named"):
            api.limit(run.directory, SessionLimits())
        assert "max_iterations 8" in api.limit(run.directory, SessionLimits(max_iterations=8))
        assert "budget_s 1000000.0" in api.limit(run.directory, SessionLimits(budget_s=1e6))
        for _ in range(3):
            run.let_on()
            assert run.is_asking()
        assert "ends after the round" in api.stop(run.directory)
        run.let_on()
        assert not run.is_asking()
    campaign = api.read_campaign(run.directory)
    assert campaign.stopped is not None
    assert (len(campaign.rounds), campaign.stopped.code) == (4, "interrupted")
    assert campaign.stopped.final_timings
    limits = limits_in_force(campaign)
    assert (limits.max_iterations, limits.budget_s) == (8, 1e6)
    with pytest.raises(UsageError, match="no process of yours works"):
        api.stop(run.directory)


def test_one_that_is_stopped_now_says_so_and_loses_nothing_but_its_round(tmp_path: Path) -> None:
    with steered(tmp_path / "run") as run:
        run.let_on()
        assert run.is_asking()
        assert "it ends now" in api.stop(run.directory, now=True)
        run.process.wait(20)
    campaign = api.read_campaign(run.directory)
    assert campaign.stopped is not None
    assert (len(campaign.rounds), campaign.stopped.code) == (1, "interrupted")
    assert "SIGTERM" in campaign.stopped.detail


def test_what_is_asked_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop while other limits are worked out, and one while the process reads what was asked."""
    with steered(tmp_path / "run") as run:

        def slow(directory: Path) -> Campaign:
            api.stop(directory)
            return api.read_campaign(directory)

        with monkeypatch.context() as patched:
            patched.setattr(steering, "read_campaign", slow)
            api.limit(run.directory, SessionLimits(max_iterations=8))
        run.let_on()
        assert not run.is_asking()
    assert limits_in_force(api.read_campaign(run.directory)).max_iterations == 8
    with CampaignDirectory.open(run.directory) as files:
        ask(run.directory, Wishes(limits=StopPolicy(max_iterations=9)))
        read = Wishes.model_validate_json

        def interrupted(text: bytes) -> Wishes:
            ask(run.directory, Wishes(stop=True))
            return read(text)

        with monkeypatch.context() as patched:
            patched.setattr(Wishes, "model_validate_json", interrupted)
            assert files.asked().limits == StopPolicy(max_iterations=9)
        assert files.asked() == Wishes(stop=True)
        assert files.asked() == Wishes()


def test_where_no_campaign_is_nobody_is_told_to_resume_one(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text("{}")
    with pytest.raises(UsageError, match="holds no campaign") as refused:
        api.stop(tmp_path)
    assert "it holds a suite" in str(refused.value.hint)
    with pytest.raises(UsageError, match="is not a directory"):
        api.limit(tmp_path / "nowhere", SessionLimits(max_iterations=8))


def post(site: Site, path: str, body: object, **headers: str) -> tuple[int, str]:
    line, answer = site.ask(
        site.root + path, "POST", json.dumps(body), **{"Content-Type": "application/json"} | headers
    )
    text = answer.read().decode()
    line.close()
    return answer.status, text


def test_only_a_page_of_a_server_that_may_steers_a_campaign(tmp_path: Path) -> None:
    with steered(tmp_path / "run") as run:
        path = "/campaign/{run}/stop"
        with serving(tmp_path) as reading:
            ours = {TOKEN: reading.root[1:], "Origin": f"http://{reading.address.netloc}"}
            where = path.format(**reading.campaigns())
            assert post(reading, where, {}, **ours)[0] == 405
            assert "data-post" not in reading.page(where.removesuffix("/stop"))
        with serving(tmp_path, "--control") as site:
            where, token = path.format(**site.campaigns()), site.root[1:]
            ours = {TOKEN: token, "Origin": f"http://{site.address.netloc}"}
            for wrong in (
                {}, {TOKEN: token}, {"Origin": ours["Origin"]}, {**ours, TOKEN: token[:-1]},
                {**ours, "Origin": "http://evil.example"}, {**ours, "Origin": "null"},
                {**ours, "Origin": ours["Origin"].replace("http:", "https:")},
                {**ours, "Host": "evil.example", "Origin": "http://evil.example"},
            ):  # fmt: skip
                assert post(site, where, {}, **wrong)[0] == 403
            assert api.read_campaign(run.directory).stopped is None
            status, said = post(site, where.replace("/stop", "/limit"), {"max_iterations": 500},
                                **ours)  # fmt: skip
            assert (status, "less than 120" in said) == (409, True)
            assert (
                post(site, where.replace("/stop", "/limit"), {"max_iterations": "x"}, **ours)[0]
                == 422
            )
            assert post(site, "/campaign/0/stop", {}, **ours)[0] == 404
            status, said = post(site, where, {}, **ours)
            assert (status, "ends after" in said) == (200, True)
            page = site.document(where.removesuffix("/stop"))
            assert page["now"]["asked"] == "to end after this round"  # type: ignore[index]
            run.let_on()
            assert not run.is_asking()
            assert post(site, where, {}, **ours)[0] == 409


def test_who_looks_on_sees_the_line_for_a_gpu_and_touches_nothing(tmp_path: Path) -> None:
    from roofsmith.machine.lease import FileLease, FileLeases
    from roofsmith.testing.clock import FakeClock

    leases, pid = FileLeases(FakeClock(), "roofsmith optimize", tmp_path), os.getpid()
    assert turn_of("GPU-1", pid, tmp_path) == QueuePlace(holder="", is_its=False, place=None)
    taken = leases.take("GPU-1")
    assert isinstance(taken, FileLease)
    found = turn_of("GPU-1", pid, tmp_path)
    assert (found.is_its, found.place) == (True, None)
    assert "roofsmith optimize" in found.holder
    assert not turn_of("GPU-1", 1, tmp_path).is_its
    name = json.loads((tmp_path / lock_name("GPU-1")).read_text())
    seat = Seat(tmp_path / lock_name("GPU-1"), name)
    seat.wait(1.0)
    dead = tmp_path / f"{lock_name('GPU-1')}.dead"
    dead.write_text(json.dumps({**name, "started": 1, "waits": 0.5}))
    assert turn_of("GPU-1", pid, tmp_path).place == 1
    assert dead.exists()
    seat.close()
    taken.release()
    assert turn_of("GPU-1", pid, tmp_path) == QueuePlace(holder="", is_its=False, place=None)
