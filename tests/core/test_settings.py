"""Settings as plain data: what records compare, to say what has changed."""

from dataclasses import dataclass, field

from profkit.core.settings import ADDED_LATER, Settings, checked, nearest, plain


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner(Settings):
    old: int = 1
    new: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer(Settings):
    old: tuple[int, ...] = (1, 2)
    new: int | None = field(default=None, metadata=ADDED_LATER)
    inner: Inner = field(default_factory=Inner)


def test_a_setting_that_was_added_later_is_recorded_only_where_it_changes_something():
    assert plain(Outer()) == {"old": [1, 2], "inner": {"old": 1}}
    changed = Outer(new=3, inner=Inner(new=("a",)))
    assert plain(changed) == {"old": [1, 2], "new": 3, "inner": {"old": 1, "new": ["a"]}}


def test_settings_are_the_same_again_when_their_record_is_read():
    for settings in (Outer(), Outer(new=3, inner=Inner(new=("a",)))):
        assert checked("outer", Outer, plain(settings)) == settings


def test_a_hint_lists_what_there_is_but_not_hundreds_of_names():
    names = [f"run{number:03}" for number in range(100)]
    assert nearest("run007x", names) == "did you mean 'run007'?"
    assert nearest("?", names[:60]) == f"choose from: {', '.join(names[:60])}"
    assert nearest("?", names) == f"choose from: {', '.join(names[:60])} and 40 more"
    assert nearest("?", names, ["run005", "run001"]) == "choose from: run005, run001"
