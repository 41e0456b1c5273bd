// Package remote asks a callability service over gRPC, or decides from the policy that the service streams.
//
// A Client has a channel and a health watch for each replica of the service. Each attempt of a call has a deadline of its
// own, and a second attempt goes to another replica: decisions are idempotent. A Client is a grpc.ClientConnInterface, so
// that every generated stub works on it.
//
// A Local follows WatchPolicy, decides in this process, and keeps the last good policy on disk for a cold start. Past a
// stated age it has no policy, and nothing is callable.
package remote
