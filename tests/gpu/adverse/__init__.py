"""Programs that try to make graphs give other results than compiled code: `make adverse-gpu`."""
