/*
 * The protocol of onceledger as a model: a stream that delivers at least once, a
 * cache whose claims may lie, a database that tells the truth, and workers, an
 * operator and a sweep that may die between any two steps. It follows one event
 * with all its copies.
 *
 * Checked, in every order that the steps can have, once everything rests:
 *   no double    money moved once if the event is applied, and not at all otherwise;
 *   no loss      the event is decided: applied, or parked with the letter it names;
 *   no silence   nothing waits, and no letter is left of an event that is applied;
 *   it ends      there is no step that waits for ever (spin's invalid end states).
 *
 * What is one step here is one step there: a transaction, a PubAck, an ack. A
 * transaction that dies leaves no trace, so that only its commit is a step.
 *
 * Bounds: WORKERS, COPIES (deliveries of the sender), CRASHES (deaths of anybody),
 * LIES (of the cache), EARLY (redeliveries, and attempts taken over, while whoever
 * had them still lives), REDRIVES.
 *
 * Three broken protocols, in each of which spin must find the fault:
 *   -DCLAIM_TRUSTED  the cache's "done" is believed without looking at the row
 *   -DACK_FIRST      a delivery is acknowledged before the commit
 *   -DPARK_FIRST     the letter is stored and the delivery ended before the row
 *                    says that the event is parked
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef COPIES
#define COPIES 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LIES
#define LIES 1
#endif
#ifndef EARLY
#define EARLY 0
#endif
#ifndef REDRIVES
#define REDRIVES 1
#endif
#define SLOTS 6 /* messages of the stream: copies, redrives, and what the sweep sends */

mtype = { none, pending, processing, completed, failed }; /* the event's row */
mtype = { absent, ready, out, gone };                     /* a message */
mtype = { open, held, done };                             /* the claim */

mtype row = none;
byte attempt = 0;    /* numbers the attempts that were begun: the fence */
bool alive = false;  /* whoever began the last one is still at it */
byte redrives = 0;
byte letterOf = 0;   /* the letter that the row names, counted from 1; 0 for none */
bool letter[REDRIVES + 1];

mtype slot[SLOTS] = absent;
bool tried[SLOTS];   /* delivered before */
byte holders[SLOTS]; /* workers that are at it */
byte stored = 0;

mtype claim = open;
bool good = false;   /* the rules can apply the event; an operator mends them */
byte applied = 0;    /* how often money moved */
byte crashes = 0, lies = 0, early = 0;

inline publish() { assert(stored < SLOTS); slot[stored] = ready; stored++ }

#define live(i) (slot[i] == ready || slot[i] == out)
#define someLive (live(0) || live(1) || live(2) || live(3) || live(4) || live(5))
#define terminal (row == completed || (row == failed && letterOf != 0))
/* A delivery comes when nobody is at it, or too early to know that. */
#define comes(i) (slot[i] == ready || (slot[i] == out && (holders[i] == 0 || early < EARLY)))
#define die crashes < CRASHES -> crashes++; goto dead
#define mine_stands (row == none && mine == 0 || row == processing && attempt == mine && mine != 0)

active proctype Sender() {
    byte n = 0;
    do
    :: atomic { n < COPIES -> publish(); n++ }
    :: n == COPIES -> break
    od
}

/* The cache forgets, and remembers what never was. */
active proctype Liar() {
    do
    :: atomic {
        lies < LIES -> lies++;
        if
        :: claim = open
        :: claim = held
        :: claim = done
        fi
    }
    :: lies == LIES -> break
    od
}

active [WORKERS] proctype Worker() {
    byte m = 0, mine = 0, r = 0;
    bool again = false;
endIdle:
    atomic {
        if
        :: comes(0) -> m = 0
        :: comes(1) -> m = 1
        :: comes(2) -> m = 2
        :: comes(3) -> m = 3
        :: comes(4) -> m = 4
        :: comes(5) -> m = 5
        fi;
        if
        :: slot[m] == out && holders[m] > 0 -> early++
        :: else
        fi;
        again = tried[m]; tried[m] = true; slot[m] = out; holders[m]++
    }
    atomic { /* the claim: a hint, which the row must confirm */
        if
        :: die
        :: claim == done ->
#ifdef CLAIM_TRUSTED
            goto answer
#else
            if
            :: terminal -> goto answer
            :: else -> claim = open
            fi
#endif
        :: claim == open -> claim = held
        :: claim == held /* put off once; then the database decides, whatever it says */
        fi
    }
#ifdef ACK_FIRST
    atomic { slot[m] = gone }
#endif
    atomic { /* an attempt of its own begins: of what came before, and of what waits */
        if
        :: die
        :: row == processing && alive && early >= EARLY -> /* somebody is at it: put off */
            holders[m]--;
            slot[m] = (slot[m] == out && holders[m] == 0 -> ready : slot[m]);
            m = 0; again = false; goto endIdle
        :: row == processing && alive && early < EARLY -> /* taken over too early */
            early++; attempt++; mine = attempt
        :: row == processing && !alive || row == pending || row == none && again ->
            row = processing; attempt++; mine = attempt; alive = true
        :: row == none && !again || row == completed || row == failed -> mine = 0
        fi
    }
#ifdef PARK_FIRST
    atomic {
        if
        :: die
        :: !good && mine_stands -> r = redrives; letter[r] = true
        :: else
        fi
    }
    atomic {
        if
        :: die
        :: !good -> slot[m] = gone
        :: else
        fi
    }
#endif
    atomic { /* it is decided, under the fence: the row and the money in one commit */
        if
        :: die
        :: mine_stands ->
            alive = false;
            if
            :: good -> row = completed; applied++
            :: else -> row = failed; letterOf = 0
            fi
        :: else /* somebody else was here: the row says how it ended */
        fi
    }
    atomic {
        if
        :: die
        :: terminal -> goto answer
        :: row == failed && letterOf == 0 -> r = redrives /* whoever sees it stores the letter */
        :: else -> /* given back */
            holders[m]--;
            slot[m] = (slot[m] == out && holders[m] == 0 -> ready : slot[m]);
            m = 0; mine = 0; again = false; goto endIdle
        fi
    }
    atomic { /* named by the row and its redrive, so that two workers store one */
        if
        :: die
        :: letter[r] = true
        fi
    }
    atomic { /* and recorded, unless the row has moved on */
        if
        :: die
        :: row == failed && redrives == r && letterOf == 0 -> letterOf = r + 1
        :: !(row == failed && redrives == r && letterOf == 0)
        fi
    }
answer:
    atomic {
        if
        :: die
        :: holders[m]--; slot[m] = gone
        fi
    }
    atomic { claim = done; m = 0; mine = 0; r = 0; again = false; goto endIdle }
dead: /* a new worker takes its place, and the delivery comes again */
    atomic {
        if
        :: mine != 0 && mine == attempt -> alive = false
        :: else
        fi;
        holders[m]--; m = 0; mine = 0; r = 0; again = false; goto endIdle
    }
}

/* Mends the rules and sends the event again: (1) a transaction, (2) the message,
 * (3) the letter is deleted. */
active proctype Operator() {
    byte old = 0;
endOperator:
    do
    :: atomic {
        row == failed && letterOf != 0 && redrives < REDRIVES ->
        old = letterOf - 1; good = true;
        row = pending; redrives++; letterOf = 0
    }
        if
        :: atomic { crashes < CRASHES -> crashes++ } /* the sweep sends it */
        :: atomic { publish() }
            if
            :: atomic { crashes < CRASHES -> crashes++ } /* the letter is stale, and tidied */
            :: letter[old] = false
            fi
        fi
    od
}

/* What one worker at a time keeps up: it sends what nothing will come for, stores
 * letters that were never stored, and deletes stale ones. */
active proctype Sweep() {
endSweep:
    do
    :: atomic { (row == pending || row == processing) && !someLive && stored < SLOTS -> publish() }
    :: atomic { row == failed && letterOf == 0 && !someLive -> letter[redrives] = true; letterOf = redrives + 1 }
    :: atomic { row == completed && letter[0] -> letter[0] = false }
    :: atomic { row == completed && letter[REDRIVES] -> letter[REDRIVES] = false }
    :: atomic { row == failed && letterOf > 1 && letter[0] -> letter[0] = false }
    od
}

init {
    atomic {
        if
        :: good = true
        :: good = false
        fi
    }
    timeout -> /* everything rests */
    assert(!someLive);
    assert(row == completed || row == failed);
    assert(applied == (row == completed));
    assert(row != failed || (letterOf != 0 && letter[letterOf - 1]));
    assert(row != completed || !(letter[0] || letter[REDRIVES]))
}
