"""Every write of releases: services, plans, and the wishes people have about a release.

A wish is a column on the release row; `releases.reconcilers` moves the state.
"""
