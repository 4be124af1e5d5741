"""`foretold.Machine`: what actors may do, what must hold, and the tape that makes a run of it.

    rules.py       the vocabulary: rule, initialize, precondition, multiple
    bundles.py     values that rules hand to later rules: Bundle, consumes
    invariants.py  what must hold, and when it is looked at
    sql.py         what must hold in the database after every commit
    tables.py      which tables a transaction may have touched
    mirrors.py     what answers have told stays true; known.py compares
    machine.py     the class that users derive from, and what is read from it
    options.py     steps, actors and weights, as given by a class, a call or the command line
    actors.py      who acts
    calls.py       one application of a rule
    weights.py     what a run does often, and what not at all (swarm)
    faulty.py      faults that come with single calls
    course.py      one run: call after call, or several at once
    checks.py      looking at the invariants: after a step, at quiet moments, at the end
    printing.py    the run as a short program of the user's own rules

A run is a row of *slots*. Each has a stream of its own, `machine/7`, whose first choice is whether
there is a call at all: 0 means no. So the shrinker leaves out a call by leaving out a stream, and
shifts nothing elsewhere. What else a slot draws (who, when, which rule, which arguments) means the
same whatever became of the other slots: a rule is named by its number among all rules, and a value
of a bundle is picked by a rule that does not ask how many others there are.
"""
