"""The next release of Slipway as other processes see it: a kind of step, a column and its migration."""
