"""The whole of Slipway on one machine: `bin/up` installs, checks, prepares and supervises it."""
