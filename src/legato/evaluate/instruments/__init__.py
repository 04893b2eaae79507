"""The instruments: what can be measured of a voice's sound, each against a reference or against the words said."""
