from importlib import import_module

Migration = import_module("releases.migrations.0001_initial").Migration
