"""The client side of Slipway: a REST client and the `slipway` command; imports nothing of the rest."""
