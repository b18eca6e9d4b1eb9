// Nothing of its own: the unit whose precompiled headers all tests reuse.
