// Package share divides payments among receivers.
//
//   - [Split] and [ClawBack] are the arithmetic: exact sums, whatever the order of the receivers.
//   - [Plan] is a division in ratios, frozen when the payment is made.
package share
