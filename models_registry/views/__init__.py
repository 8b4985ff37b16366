"""The console's pages about models, their versions and aliases."""
