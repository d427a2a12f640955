"""The pytest fixture; pytest finds it by itself once the package is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from giftrail_client.testing import FakeService


@pytest.fixture
def giftrail_service() -> FakeService:
    """A fake service of its own for each test, with 100,000 in its wallet."""
    from giftrail_client.testing import FakeService  # noqa: PLC0415 — who does not ask for it loads nothing

    return FakeService()
