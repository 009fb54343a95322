/// The last so many elements of a stream, in order; the newest of each key can still be changed.
///
/// Taking one in, handing the oldest on and finding one by its key cost the same however long the window is.
struct SlidingWindow<Key: Hashable & Sendable, Element: Sendable>: Sendable {
    private struct Slot: Sendable {
        var key: Key?
        var element: Element?
    }

    private let size: Int
    /// A ring: the element of number n, counted from the first ever taken, lies at n modulo size.
    private var slots: ContiguousArray<Slot> = []
    private var first = 0
    private var next = 0
    /// The number of the newest element of each key.
    private var newest: [Key: Int] = [:]

    /// - Parameter size: how many wait at most, 1 or more.
    init(size: Int) { self.size = max(1, size) }

    /// How many wait.
    var count: Int { next - first }

    /// Takes one in; returns the oldest, where there is no more room.
    mutating func append(_ element: Element, key: Key?) -> Element? {
        let passed = count == size ? removeFirst() : nil
        if next < size {
            slots.append(Slot(key: key, element: element))
        } else {
            slots[next % size] = Slot(key: key, element: element)
        }
        if let key { newest[key] = next }
        next += 1
        return passed
    }

    /// Changes the newest element of a key in its place; false where none waits.
    mutating func change(_ key: Key, _ change: (inout Element) -> Void) -> Bool {
        guard let number = newest[key], var element = slots[number % size].element else { return false }
        slots[number % size].element = nil
        change(&element)
        slots[number % size].element = element
        return true
    }

    /// Takes all out, oldest first.
    mutating func removeAll() -> [Element] {
        var all: [Element] = []
        all.reserveCapacity(count)
        while let element = removeFirst() { all.append(element) }
        return all
    }

    private mutating func removeFirst() -> Element? {
        guard first < next else { return nil }
        let place = first % size
        defer { first += 1 }
        if let key = slots[place].key, newest[key] == first { newest[key] = nil }
        let element = slots[place].element
        slots[place] = Slot(key: nil, element: nil)
        return element
    }
}
