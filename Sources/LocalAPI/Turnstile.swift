/// Lets few pieces of work be done at a time, the others in turn.
actor Turnstile {
    /// There is a queue already that would take too long.
    struct Full: Error {}

    private let width: Int
    private let mostWaiting: Int
    private var inside = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    /// Makes one.
    ///
    /// - Parameters:
    ///   - width: how many pieces of work are done at a time.
    ///   - mostWaiting: how many may wait for their turn.
    init(width: Int, mostWaiting: Int) { (self.width, self.mostWaiting) = (width, mostWaiting) }

    /// Does work when its turn comes.
    ///
    /// - Throws: ``Full`` if too many wait, or what the work throws.
    func pass<Value: Sendable>(_ work: @Sendable () async throws -> Value) async throws -> Value {
        if inside < width {
            inside += 1
        } else {
            guard waiting.count < mostWaiting else { throw Full() }
            // Whoever leaves hands its place on.
            await withCheckedContinuation { waiting.append($0) }
        }
        defer { leave() }
        try Task.checkCancellation()
        return try await work()
    }

    /// Whether work would begin at once.
    var isFree: Bool { inside < width }
    /// How many wait.
    var queue: Int { waiting.count }

    private func leave() {
        if waiting.isEmpty { inside -= 1 } else { waiting.removeFirst().resume() }
    }
}
