import Synchronization

/// A list of numbers behind a lock.
final class LockedPair: Sendable {
    private let numbers = Mutex<[Int]>([])
    func set(_ new: [Int]) { numbers.withLock { $0 = new } }
    func get() -> [Int] { numbers.withLock { $0 } }
}
