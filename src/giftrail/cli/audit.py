"""The audit of everything."""

import typer

from giftrail.audit import findings as auditor
from giftrail.cli import desk


def audit(data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Check that money, orders and codes add up; exit status 1 when anything does not.

    Example: giftrail audit
    """

    async def deed(at: desk.Desk) -> list[str]:
        with desk.err.status("Reading everything…"):
            return await auditor.list_findings(at.conn, now=at.now)

    findings = desk.run(deed, data_dir=data_dir)
    if not as_json:
        for finding in findings:
            desk.out.print(finding, markup=False, soft_wrap=True)
    sentence = f"{len(findings)} findings." if findings else "Everything adds up."
    desk.tell(sentence, {"findings": findings}, as_json=as_json)
    if findings:
        raise typer.Exit(1)
