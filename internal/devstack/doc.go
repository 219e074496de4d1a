// Package devstack runs the two servers that the product stands on, PostgreSQL and Temporal, on a developer's
// machine: for `paylatch dev` and for the test suites. It finds the programs (or fetches them), starts them on
// 127.0.0.1 only, watches them, and takes them down.
//
// Guarantees:
//   - The private cluster is as durable as a production one: fsync, synchronous_commit and full_page_writes are on,
//     data checksums are on, and all four hold whatever the cluster's own configuration file says.
//   - A server that ends on its own is started again on the same port and data. One that was stopped stays stopped.
//   - No server outlives this process: not after Stop, and on Linux not after a SIGKILL of this process either.
//     Elsewhere the next start finds what a killed process left behind and stops it first.
//   - A directory is used by one process at a time; a second one is told so and disturbs nothing.
//   - A set-up that was cut short never leaves a cluster that cannot start.
//
// A test package gets both servers by
//
//	func TestMain(m *testing.M) {
//		os.Exit(devstack.Main(m, devstack.Needs{Postgres: true, Temporal: true}))
//	}
//
// Only Unix systems are supported.
package devstack
