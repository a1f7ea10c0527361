"""What a model charges, as its vendor says or its user does; what nobody says is unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from roofsmith.domain.price import Price
from roofsmith.proposers.model.endpoint import Endpoint, Provider
from roofsmith.yaml_document import shipped_table

_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


def price_of(endpoint: Endpoint, own: Mapping[str, Price]) -> Price | None:
    """What a model charges where it is asked; None: nobody says.

    Args:
        endpoint: the model. At an address of its own, a vendor's prices say nothing.
        own: the user's table, by the model's name; it wins.
    """
    if endpoint.model in own:
        return own[endpoint.model]
    if endpoint.base_url is not None:
        return None
    listed = vendor_prices()[endpoint.provider]
    return listed.get(endpoint.model) or listed.get(_SNAPSHOT.sub("", endpoint.model))


@cache
def vendor_prices() -> Mapping[Provider, Mapping[str, Price]]:
    """The table beside this file."""
    tables: Mapping[Provider, Any] = shipped_table(__package__, "prices.yaml")
    return {provider: _prices(table) for provider, table in tables.items()}


def _prices(table: Mapping[str, Any]) -> dict[str, Price]:
    return {
        model: Price(input=fresh, cached=cached, output=output, as_of=table["as_of"])
        for model, (fresh, cached, output) in table["models"].items()
    }
