import Foundation
import Testing

@Suite struct LibraryDocumentationTests {
    private let here = URL(filePath: #filePath).deletingLastPathComponent()

    /// The words of a text, so that how lines are broken and indented does not matter.
    private func words(_ text: some StringProtocol) -> String {
        text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    @Test("the examples of the library's documentation are those that are compiled")
    func examples() throws {
        let document = try String(
            contentsOf: here.appending(path: "../../Documentation/library.md"), encoding: .utf8)
        let compiled = words(try String(contentsOf: here.appending(path: "LibraryExamples.swift"), encoding: .utf8))
        let blocks = document.components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(blocks.count >= 8)
        for block in blocks { #expect(compiled.contains(words(block)), "not compiled:\n\(block)") }
    }
}
