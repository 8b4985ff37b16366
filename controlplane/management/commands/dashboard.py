import json

from common.management.written import WrittenFromCode
from controlplane.dashboard import dashboard


class Command(WrittenFromCode):
    help = "Write docs/dashboard.json, for Grafana."
    file = "docs/dashboard.json"

    def text(self) -> str:
        return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
