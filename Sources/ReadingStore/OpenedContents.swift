import Dispatch
import HealthReadings

/// The content of a sealed row, as it was opened.
struct OpenedContent: Sendable {
    let id: ReadingID
    let content: ReadingContent
    fileprivate let key: Int64
    private let columns: ReadingColumns
    private let blob: [UInt8]

    /// - Parameters:
    ///   - key: the row.
    ///   - columns: the row's columns, to which the seal is bound.
    ///   - blob: the sealed octets.
    init(
        _ key: Int64, _ columns: ReadingColumns, _ blob: UnsafeRawBufferPointer, _ id: ReadingID,
        _ content: ReadingContent
    ) {
        (self.key, self.columns, self.blob, self.id, self.content) = (key, columns, Array(blob), id, content)
    }

    /// Whether the row is as it was: what its seal held for then, it holds for now.
    fileprivate func isOf(_ columns: ReadingColumns, _ blob: UnsafeRawBufferPointer) -> Bool {
        self.columns == columns && blob.elementsEqual(self.blob)
    }
}

/// Contents of sealed rows that were opened for pages lately: who looks at the same page again does not wait until it is
/// opened again. They are forgotten when nobody has looked for a minute, when readings are erased and when keys change.
struct OpenedContents: Sendable {
    static let patience: DispatchTimeInterval = .seconds(60)

    private var contents: [Int64: OpenedContent] = [:]
    /// Whether somebody has looked since ``forgetUnused()`` was called last.
    private var isInUse = false
    private(set) var isWatched = false

    var isEmpty: Bool { contents.isEmpty }

    func content(of key: Int64, _ columns: ReadingColumns, _ blob: UnsafeRawBufferPointer) -> OpenedContent? {
        guard !contents.isEmpty, let content = contents[key], content.isOf(columns, blob) else { return nil }
        return content
    }

    /// Keeps what was opened for a page.
    ///
    /// - Parameter keys: the page's rows.
    /// - Returns: whether nobody watches yet that contents are forgotten.
    mutating func keep(_ opened: [OpenedContent], of keys: [Int64]) -> Bool {
        guard !(contents.isEmpty && opened.isEmpty) else { return false }
        // No more than the longest page has: the one that was looked at last.
        if contents.count + opened.count > ReadingQuery.limits.upperBound {
            let former = contents
            contents = [:]
            for key in keys { contents[key] = former[key] }
        }
        for content in opened { contents[content.key] = content }
        isInUse = true
        defer { isWatched = true }
        return !isWatched
    }

    /// - Returns: whether there is anything left to forget.
    mutating func forgetUnused() -> Bool {
        if isInUse {
            isInUse = false
        } else {
            self = OpenedContents()
        }
        return isWatched
    }
}
