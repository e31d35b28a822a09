"""One file a package; each public function in it makes one program."""
