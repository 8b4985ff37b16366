"""Fills an MLflow registry: `python peer_mlflow.py DATABASE MODELS VERSIONS`, by a Python that has mlflow."""

import sys

from mlflow.entities.model_registry import ModelVersionTag
from mlflow.store.model_registry.dbmodels.models import (
    SqlModelVersion,
    SqlModelVersionTag,
    SqlRegisteredModelAlias,
)
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore

WORDS = ("chat", "embed", "vision", "speech", "rerank", "code", "math", "guard")


def populate(database: str, models: int, versions: int) -> None:
    store = SqlAlchemyStore(f"sqlite:///{database}")
    names = [f"{WORDS[number % 8]}-{number:05}" for number in range(models)]
    for number, name in enumerate(names):
        store.create_registered_model(
            name, description=f"Model {number}, tuned for {WORDS[number // 8 % 8]}."
        )
    first = store.create_model_version(names[0], "file:///srv/x", tags=[ModelVersionTag("run", "0-1")])
    with store.ManagedSessionMaker() as session:
        pattern = session.query(SqlModelVersion).filter_by(name=names[0]).one()
        columns = [one.name for one in SqlModelVersion.__table__.columns]
        told = {column: getattr(pattern, column) for column in columns}
        rows = []
        for number, name in enumerate(names):
            for version in range(1, versions + 1):
                named = {"name": name, "version": version}
                if (number, version) != (0, first.version) and (number, version) != (0, 1):
                    rows.append(SqlModelVersion(**{**told, **named, "description": f"Run {version}"}))
                    rows.append(SqlModelVersionTag(**named, key="run", value=f"{number}-{version}"))
                if version % 10 == 0:
                    rows.append(SqlModelVersionTag(**named, key="evaluated", value="yes"))
            rows.append(SqlRegisteredModelAlias(name=name, alias="production", version=versions))
        session.add_all(rows)


if __name__ == "__main__":
    populate(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
