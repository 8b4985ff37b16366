from slipway.cli import main

main()
