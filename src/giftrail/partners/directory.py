"""The partners in memory, so that a request is judged without a query; refreshed when the topic's version rises."""

from giftrail.db import pool
from giftrail.partners import model, store


class Directory:
    """Partners by id as of the last version seen."""

    def __init__(self, database: pool.Database) -> None:
        self._database = database
        self._partners: dict[str, model.Partner] = {}
        self._owners: dict[str, str] = {}  # partner by credential
        self._version = -1

    def find(self, partner_id: str) -> model.Partner | None:
        """The partner as this process knows it."""
        return self._partners.get(partner_id)

    def find_by_credential(self, credential_id: str) -> model.Partner | None:
        """The partner whose live credential it is, as this process knows it."""
        return self._partners.get(self._owners.get(credential_id, ""))

    async def find_fresh(self, partner_id: str) -> model.Partner | None:
        """The partner as the database knows it, kept for the next request."""
        partner = await store.find_partner(self._database.read, name_or_id=partner_id)
        if partner is not None:
            self._keep(partner)
        return partner

    async def refresh(self, version: int) -> None:
        """Read what changed since the last version seen."""
        for partner in await store.list_partners(self._database.read, changed_since_version=self._version):
            self._keep(partner)
        self._version = version

    def _keep(self, partner: model.Partner) -> None:
        known = self._partners.get(partner.partner_id)
        if known is None or known.version <= partner.version:
            for credential_id in known.credentials - partner.credentials if known else ():
                self._owners.pop(credential_id, None)
            self._partners[partner.partner_id] = partner
            self._owners |= dict.fromkeys(partner.credentials, partner.partner_id)
