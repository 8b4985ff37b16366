from common.management.written import WrittenFromCode
from releases.plans.reference import reference


class Command(WrittenFromCode):
    help = "Write docs/PLANS.md, the reference of release plans."
    file = "docs/PLANS.md"

    def text(self) -> str:
        return reference()
