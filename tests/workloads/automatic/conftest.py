import pytest

from profkit import marks


class Watcher:
    """Notes what is marked: ranges as they open and close, steps, notes."""

    def __init__(self):
        self.seen = []
        self.notes = []

    def begin(self):
        self.seen.append("begin")

    def step(self, samples):
        self.seen.append(samples)

    def resume(self):
        self.seen.append("resume")

    def join(self, first, count):
        self.seen.append((first, count))

    def note(self, text):
        self.notes.append(text)

    def marker(self, name):
        self.seen.append(name)
        return Range(self.seen, name)


class Range:
    def __init__(self, seen, name):
        self.seen, self.name = seen, name

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.seen.append(f"/{self.name}")


@pytest.fixture
def watcher(monkeypatch):
    watcher = Watcher()
    monkeypatch.setattr(marks, "_marks", marks._Marks())
    marks.listen(watcher, markers=(watcher.marker,))
    return watcher
