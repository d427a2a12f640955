"""The remote providers of this installation, by name: built in, or from the entry points `giftrail.providers`.

An entry point is a callable `(name, options) -> protocol.Provider`; what it does not understand it refuses with
ValueError.
"""

from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from giftrail.providers import protocol, sandbox, upstream

ENTRY_POINTS = "giftrail.providers"
KIND = "kind"

Make = Callable[[str, Mapping[str, Any]], protocol.Provider]


BUILT_IN: Mapping[str, Make] = {"sandbox": sandbox.make, "upstream": upstream.Upstream}


class ProviderInvalid(ValueError):
    """The settings name a provider that cannot be made; the message says which and why."""


def make_providers(configured: Mapping[str, Mapping[str, Any]], *, with_sandbox: bool) -> dict[str, protocol.Provider]:
    """The providers that the settings name, and the sandbox's outside production. Raises ProviderInvalid."""
    providers: dict[str, protocol.Provider] = {}
    if with_sandbox:
        providers |= {name: sandbox.Sandbox(name) for name in sandbox.NAMES}
    for name, options in configured.items():
        if name in providers or name in protocol.AT_ONCE:
            raise ProviderInvalid(f"provider {name!r}: the name is taken")
        rest = {option: value for option, value in options.items() if option != KIND}
        try:
            providers[name] = _kind(str(options.get(KIND)))(name, rest)
        except (ValueError, TypeError) as error:
            raise ProviderInvalid(f"provider {name!r}: {error}") from None
    return providers


def known_names(configured: Mapping[str, Any], *, with_sandbox: bool) -> frozenset[str]:
    """The names a brand may list."""
    return protocol.AT_ONCE | frozenset(configured) | (frozenset(sandbox.NAMES) if with_sandbox else frozenset())


def _kind(kind: str) -> Make:
    if kind in BUILT_IN:
        return BUILT_IN[kind]
    found = {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}
    if kind not in found:
        raise ProviderInvalid(f"its kind {kind!r} is not one of {', '.join(sorted({*found, *BUILT_IN}))}")
    make: Make = found[kind].load()
    return make
