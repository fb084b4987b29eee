/*
 * The protocol of onceledger as a model: a stream that delivers at least once, a
 * cache that may say anything, a database that tells the truth, and workers, an
 * operator and a sweep that may die between any two steps. It follows one event
 * id with all its deliveries, of one content or of two that differ.
 *
 * Checked, in every order that the steps can have:
 *   no double    money moved once if the event is completed, and not at all otherwise;
 *   one stands   of two contents at most one moves money; each is the row's, or has
 *                its letter beside it, or had one before the other took the row over;
 *   no loss      at rest the event is completed, given up by the operator, or parked
 *                with the letter that its row names, which has the row's content;
 *   no silence   nothing waits, and no letter is left of an event that is decided;
 *   it ends      no step waits for ever (spin's invalid end states); and with
 *                -DENDS, for fewer troubles: every run comes to rest, if whoever
 *                can go on does so at last (weak fairness).
 *
 * What is one step here is one step there: a transaction, a PubAck, an ack. A
 * transaction that dies leaves no trace, so that only its commit is a step. The
 * cache has no state: each answer that it can give is a choice, at any time. So
 * is the count of deliveries, which brokers lose: a delivery without a row may be
 * decided at once or in an attempt of its own.
 *
 * What goes wrong is drawn from one budget, TROUBLES, in any mixture: a death
 * between two steps; a delivery, a takeover of an attempt, or a message sent again
 * by the sweep while whoever has the event still lives (a pause); a claim that is
 * held; an attempt that is refused for now, or interrupted by an outage and given
 * back. A commit or an ack whose answer is lost is a death right after it. The
 * crash budget is made smaller than the real one (3) where that saves time.
 *
 * Not in it: other events of the batch (they share its transaction, and so its
 * fate), the counting of refusals (one passes, or parks), operations and amounts
 * (pkg/ledger), conflicts that are sent again or let stand, corrections, `event
 * reopen`; a stream or a database that loses what it acknowledged (restore,
 * replay); the sweep's repairs of what must not happen, an answered message
 * without a row and a row whose letter is gone: they would hide a fault here.
 *
 * Broken protocols, in each of which spin must find the fault:
 *   -DCLAIM_TRUSTED  the cache's "done" is believed without looking at the row
 *   -DACK_FIRST      a delivery is acknowledged before the commit
 *   -DPARK_FIRST     the letter is stored and the delivery ended before the row
 *                    says that the event is parked
 *   -DNO_FENCE       an attempt that was taken over may still be committed
 *   -DANY_LETTER     a letter is recorded in any parked row that has none, not only
 *                    for the very decision that it is of
 *   -DANY_BYTES      whoever parks an event that killed its workers stores the
 *                    letter, even if its own delivery has another content
 *   -DHELD_FOR_EVER  (with -DENDS) a delivery is put off as long as its claim is held
 *
 * scripts/model says which searches are made; `make model` makes them.
 */

#ifndef COPIES
#define COPIES 2      /* deliveries of the sender */
#endif
#ifndef CONTENTS
#define CONTENTS 1    /* that differ, among them */
#endif
#ifndef TROUBLES
#define TROUBLES 2    /* that may happen in all */
#endif
#ifndef CRASHES
#define CRASHES 2     /* the crash budget: workers that may die of one event */
#endif
#ifndef ACTS
#define ACTS 1        /* redrives and discards by the operator */
#endif
#define WORKERS 2
#define SLOTS 4       /* messages at one time */
#define LETTERS 5     /* in all; [0] stays empty */
#define nobody 255

mtype = { none, pending, processing, completed, failed, discarded };

/* The event's row. */
mtype row = none;
byte body = 0;         /* the content that it has */
byte owner = nobody;   /* who began the attempt; there: the attempt's number */
bool alive = false;    /* and is still at it; there: was heard of within the ack wait */
byte crashed = 0;      /* attempts taken over */
byte parkings = 0;     /* numbers the decisions to park it; there: redrives and attempt */
byte letterOf = 0;     /* the letter that it names; 0: none */
bool applied = false;  /* money moved */

/* The row of a content that came when another one stood, and its letter. */
mtype beside[CONTENTS] = none;
bool besideLetter[CONTENTS], besideNamed[CONTENTS];

/* The streams. */
bool live[SLOTS];            /* a message that is not answered yet */
byte what[SLOTS];            /* its content */
byte holders[SLOTS];         /* workers that are at it */
bool back[SLOTS];            /* given back by one of several: it comes again at once */
byte letter[LETTERS + 1];    /* a letter's content, counted from 1; 0: none */

bool good[CONTENTS];         /* the rules can apply it; the operator mends them */
bool explained[CONTENTS];    /* a letter of it was stored: noted if another takes over */
byte troubles = 0;

#define trouble troubles < TROUBLES -> troubles++
#define gone(i) (!live[i] && holders[i] == 0)
#define someLive (live[0] || live[1] || live[2] || live[3])
#define terminal (row == completed || row == discarded || (row == failed && letterOf != 0))
#define waits (row == pending || row == processing)
#define mine (row == processing && owner == _pid)
#define same (body == what[m])

/* How a letter stands to the row. */
#define parked(l) (letter[l] != 0 && row == failed && (letterOf == l || (letterOf == 0 && letter[l] == body + 1)))
#define redriven(l) (letter[l] == body + 1 && row == pending)
#define stale(l) (letter[l] != 0 && !(row == failed && letterOf == l) && \
    (letter[l] != body + 1 || row == completed || row == discarded || (row == failed && letterOf != 0)))

inline publish(content) {
    if
    :: gone(0) -> live[0] = true; what[0] = content
    :: else -> if
        :: gone(1) -> live[1] = true; what[1] = content
        :: else -> if
            :: gone(2) -> live[2] = true; what[2] = content
            :: else -> assert(gone(3)); live[3] = true; what[3] = content
            fi
        fi
    fi
}

inline begin() { row = processing; body = what[m]; owner = _pid; alive = true; letterOf = 0 }

inline wait() { row = pending; owner = nobody; alive = false }

inline park() {
    assert(parkings < LETTERS);
    row = failed; owner = nobody; alive = false; letterOf = 0; parkings++; l = parkings
}

inline store(content) { letter[l] = content + 1; explained[content] = true }

/* Records the letter in the row, unless that has moved on. */
inline record() {
    if
#ifdef ANY_LETTER
    :: row == failed && letterOf == 0 -> letterOf = l
#else
    :: row == failed && letterOf == 0 && parkings == l -> letterOf = l
#endif
    :: else
    fi
}

active proctype Sender() {
    byte n = 0;
    do
    :: atomic { n < COPIES -> publish(n % CONTENTS); n++ }
    :: atomic { n == COPIES -> n = 0; break }
    od
}

inline leave() { holders[m]--; m = 0; l = 0; goto endIdle }

inline giveBack() { back[m] = live[m] && holders[m] > 1; leave() }

/* A new worker takes its place; the delivery comes again after the ack wait. */
inline die() {
    if
    :: mine -> alive = false
    :: else
    fi;
    leave()
}

active [WORKERS] proctype Worker() {
    byte m = 0;         /* the message */
    byte l = 0;         /* the letter */
    bool first = false; /* there was no row: no attempt was begun */
endIdle:
    atomic { /* a delivery: of what nobody is at, or of what seems so */
        if
        :: live[0] && (holders[0] == 0 || back[0]) -> m = 0
        :: live[1] && (holders[1] == 0 || back[1]) -> m = 1
        :: live[2] && (holders[2] == 0 || back[2]) -> m = 2
        :: live[3] && (holders[3] == 0 || back[3]) -> m = 3
        :: live[0] && holders[0] > 0 && trouble -> m = 0
        :: live[1] && holders[1] > 0 && trouble -> m = 1
        :: live[2] && holders[2] > 0 && trouble -> m = 2
        :: live[3] && holders[3] > 0 && trouble -> m = 3
        fi;
        holders[m]++; back[m] = false;
#ifdef ACK_FIRST
        live[m] = false
#endif
    }
look:
    atomic { /* the row says what is done; an attempt is committed before it is made */
        if
        :: trouble -> die()
        :: trouble -> giveBack() /* the cache says that somebody is at it: put off, once */
#ifdef HELD_FOR_EVER
        :: true -> giveBack()
#endif
#ifdef CLAIM_TRUSTED
        :: true -> goto answer
#endif
        :: row == none -> first = true; goto decide
        :: row == none || row == pending -> begin(); goto decide
        :: terminal && same -> goto answer
        :: row == failed && letterOf == 0 && same -> l = parkings; goto letters /* whoever sees it stores it */
        :: (row == failed || row == discarded) && !same -> begin(); goto decide
        :: row == completed && !same ->
            if
            :: besideNamed[what[m]] -> goto answer
            :: else -> beside[what[m]] = failed; goto besides
            fi
        :: row == processing && alive -> giveBack()
        :: row == processing && alive && trouble
        :: row == processing && !alive
        fi;
        crashed++; /* it is taken over */
        if
        :: crashed < CRASHES -> begin(); goto decide
        :: else -> park()
        fi;
#ifdef ANY_BYTES
        goto letters;
#endif
        if
        :: same -> goto letters
        :: else -> giveBack() /* the next look decides it on its merits */
        fi
    }
decide:
#ifdef PARK_FIRST
    atomic {
        if
        :: trouble -> first = false; die()
        :: !good[what[m]] && (mine || row == none) -> l = parkings + 1; store(what[m])
        :: else
        fi
    }
    atomic {
        if
        :: trouble -> first = false; die()
        :: l != 0 -> live[m] = false
        :: else
        fi
    }
#endif
    atomic { /* under the fence: the row and the money in one commit */
        if
        :: trouble -> first = false; die()
        :: first && row != none -> first = false; goto look /* another delivery was faster */
        :: !first && !mine ->
#ifdef NO_FENCE
            skip
#else
            giveBack()
#endif
        :: first && row == none
        :: mine
        fi;
        first = false;
        body = what[m];
        if
        :: trouble -> wait(); giveBack() /* refused for now, or interrupted */
        :: good[what[m]] -> assert(!applied); applied = true; row = completed; owner = nobody; alive = false; goto answer
        :: !good[what[m]] -> park()
        fi
    }
letters:
    atomic {
        if
        :: trouble -> die()
        :: store(what[m])
        fi
    }
    atomic {
        if
        :: trouble -> die()
        :: record(); goto answer
        fi
    }
besides: /* the same for a content beside the one that stands */
    atomic {
        if
        :: trouble -> die()
        :: besideLetter[what[m]] = true
        fi
    }
    atomic {
        if
        :: trouble -> die()
        :: besideNamed[what[m]] = true
        fi
    }
answer:
    atomic {
        if
        :: trouble -> die()
        :: live[m] = false; back[m] = false; leave()
        fi
    }
}

/* Mends the rules and sends the event again: (1) a transaction, (2) the message,
 * (3) the letter is deleted. Or gives it up, and deletes the letter. */
active proctype Operator() {
    byte acts = 0, l = 0, c = 0;
endOperator:
    do
    :: atomic {
        if
        :: acts < ACTS && (parked(1) || redriven(1)) -> l = 1
        :: acts < ACTS && (parked(2) || redriven(2)) -> l = 2
        :: acts < ACTS && (parked(3) || redriven(3)) -> l = 3
        :: acts < ACTS && (parked(4) || redriven(4)) -> l = 4
        :: acts < ACTS && (parked(5) || redriven(5)) -> l = 5
        fi;
        acts++; c = letter[l] - 1;
        if
        :: parked(l) -> row = discarded; goto delete
        :: wait(); letterOf = 0; crashed = 0;
            good[0] = true; good[CONTENTS - 1] = true
        fi
        }
        if
        :: atomic { trouble -> l = 0; c = 0; goto endOperator } /* the sweep sends it */
        :: atomic { publish(c); c = 0 }
        fi;
delete:
        if
        :: atomic { trouble -> l = 0; c = 0 } /* the letter is stale once it is decided */
        :: atomic { letter[l] = 0; l = 0; c = 0 }
        fi
    od
}

/* What one worker at a time keeps up: it sends what nothing will come for, stores
 * letters that were never stored, and deletes stale ones. */
active proctype Sweep() {
    byte l = 0, c = 0;
endSweep:
    do
    :: atomic {
        if
        :: waits && !someLive
        :: waits && someLive && trouble
        fi;
        wait(); c = body
        }
        if
        :: atomic { trouble -> c = 0 }
        :: atomic { publish(c); c = 0 }
        fi
    :: atomic {
        if
        :: row == failed && letterOf == 0 && !someLive
        :: row == failed && letterOf == 0 && someLive && trouble
        fi;
        l = parkings; c = body
        }
        atomic { store(c); c = 0 }
        atomic { record(); l = 0 }
    :: atomic {
        if
        :: stale(1) -> l = 1
        :: stale(2) -> l = 2
        :: stale(3) -> l = 3
        :: stale(4) -> l = 4
        :: stale(5) -> l = 5
        fi
        }
        atomic { letter[l] = 0; l = 0 }
    od
}

#ifdef ENDS
ltl ends { <> [] (terminal && !someLive) }
#endif

init {
    atomic {
        if
        :: good[0] = true
        :: good[CONTENTS - 1] = true
        :: good[0] = true; good[CONTENTS - 1] = true
        :: skip
        fi
    }
    timeout -> /* everything rests */
    atomic {
        assert(!someLive);
        assert(terminal);
        assert(applied == (row == completed));
        assert(row != failed || letter[letterOf] == body + 1);
        assert(!stale(1) && !stale(2) && !stale(3) && !stale(4) && !stale(5));
        byte c = 0;
        do
        :: c < CONTENTS ->
            assert(body == c || (besideNamed[c] && besideLetter[c]) || explained[c]);
            c++
        :: else -> break
        od
    }
}
