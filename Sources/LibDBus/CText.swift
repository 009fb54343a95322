import Glibc

/// A text as libdbus has texts, to compare with.
struct CText {
    private let characters: ContiguousArray<CChar>

    init(_ text: String) { characters = text.utf8CString }

    init(_ text: UnsafePointer<CChar>) {
        characters = ContiguousArray(UnsafeBufferPointer(start: text, count: strlen(text) + 1))
    }

    static func == (left: CText, right: UnsafePointer<CChar>?) -> Bool {
        guard let right else { return false }
        return left.characters.withUnsafeBufferPointer { left in
            guard let base = left.baseAddress else { return false }
            return strcmp(base, right) == 0
        }
    }

    /// Whether `text` begins with this.
    func begins(_ text: UnsafePointer<CChar>) -> Bool {
        characters.withUnsafeBufferPointer { own in
            guard let base = own.baseAddress else { return false }
            return strncmp(base, text, own.count - 1) == 0
        }
    }

    /// Whether this begins with `text`.
    func begins(with text: UnsafePointer<CChar>) -> Bool {
        characters.withUnsafeBufferPointer { own in
            guard let base = own.baseAddress else { return false }
            return strncmp(base, text, strlen(text)) == 0
        }
    }

    /// How many octets it has, the closing NUL apart.
    var count: Int { characters.count - 1 }

    /// Its last octet; 0 where it is empty.
    var last: CChar { characters.dropLast().last ?? 0 }
}
