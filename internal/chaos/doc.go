// Package chaos plays load on the whole house while its servers and processes are killed, paused and started again, and
// then compares what was sent with what the books say.
//
//   - [NewPlan] draws from a seed what is struck, when and how. The same seed gives the same plan, and the same load.
//   - [Run] starts PostgreSQL, Temporal, two APIs and two workers as processes, plays load and plan, waits for quiet and
//     compares.
//   - [Record] is the memory of the channel and the merchants: what was sent, and how it was answered. It shares no code
//     with what it judges.
//   - [Compare] holds the books to the record: every acknowledged report has its effect or its recorded reason, none has it
//     twice, and every account has the balance that channel and merchants count.
//
// A new kind of load is one line in scenes and one function; a new kind of fact is one more part of Record, Books and
// Compare.
package chaos
