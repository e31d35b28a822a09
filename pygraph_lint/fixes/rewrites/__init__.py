"""The rewrites, one a file, in folders by purpose; being there registers one."""
