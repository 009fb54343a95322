import CLibXML2
import Foundation

/// Elements of an XML document in their order, through libxml2's reader. Nothing is loaded besides the document.
final class XMLEvents {
    /// What comes next.
    enum Event {
        case begin
        case end
    }

    /// An element's attributes as they are read: valid until the next event.
    struct Attributes: Sequence, IteratorProtocol {
        fileprivate var attribute: UnsafeMutablePointer<_xmlAttr>?

        /// The next attribute: a name that ``XMLEvents/name(_:)`` gives, and its value.
        mutating func next() -> (name: UnsafePointer<UInt8>, value: Value)? {
            guard let present = attribute, let name = present.pointee.name else { return nil }
            attribute = present.pointee.next
            return (name, Value(present.pointee.children))
        }
    }

    /// An attribute's value.
    struct Value {
        private let node: UnsafeMutablePointer<_xmlNode>?

        fileprivate init(_ node: UnsafeMutablePointer<_xmlNode>?) { self.node = node }

        /// No attribute.
        static var absent: Value { Value(nil) }

        /// Whether there is one, and anything in it.
        var isThere: Bool { withOctets { !$0.isEmpty } }

        /// The line on which its element's tag ends.
        var line: Int? {
            guard let node else { return nil }
            let line = Int(xmlGetLineNo(node))
            // libxml2 2.15 no longer gives an attribute's text a line. Its element has one.
            guard line <= 0, let element = node.pointee.parent?.pointee.parent else { return line }
            return Int(xmlGetLineNo(element))
        }

        /// Gives its octets, which are valid within the call only.
        func withOctets<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
            guard let node else { return body(UnsafeBufferPointer(start: nil, count: 0)) }
            guard node.pointee.next == nil, node.pointee.type == XML_TEXT_NODE, let text = node.pointee.content else {
                // A reference to a character may make several nodes of a value.
                guard let text = xmlNodeListGetString(node.pointee.doc, node, 1) else {
                    return body(UnsafeBufferPointer(start: nil, count: 0))
                }
                defer { healthrelay_xml_free(text) }
                return body(UnsafeBufferPointer(start: text, count: Int(xmlStrlen(text))))
            }
            return body(UnsafeBufferPointer(start: text, count: Int(xmlStrlen(text))))
        }

        /// Its text.
        var text: String { withOctets { String(decoding: $0, as: UTF8.self) } }
    }

    private let reader: xmlTextReaderPtr
    private let octets: ExportOctets
    /// The element that the last event was of.
    private var node: UnsafeMutablePointer<_xmlNode>?
    private var isEmptyElement = false
    private var isBegun = false
    /// How many elements the present one stands in.
    private(set) var depth = 0
    /// After a fault: what the parser had read before it, and the reader had not come to.
    private var leftover: [Leftover]?
    private var fault: ImportDamage?

    private struct Leftover {
        var node: UnsafeMutablePointer<_xmlNode>
        var event: Event
        var depth: Int
    }

    /// How many octets were read.
    var octetsRead: Int64 { octets.octetsRead }

    init(_ octets: ExportOctets) throws(ImportDamage) {
        self.octets = octets
        xmlInitParser()
        // No entity is replaced, nothing is fetched, and libxml2's limits of depth and length stay in force.
        let options =
            XML_PARSE_NONET.rawValue | XML_PARSE_COMPACT.rawValue | XML_PARSE_NOBLANKS.rawValue
            | XML_PARSE_NOERROR.rawValue | XML_PARSE_NOWARNING.rawValue | XML_PARSE_BIG_LINES.rawValue
        let context = Unmanaged.passUnretained(octets).toOpaque()
        let reader = xmlReaderForIO(
            { context, buffer, count in
                guard let context, let buffer else { return -1 }
                let octets = Unmanaged<ExportOctets>.fromOpaque(context).takeUnretainedValue()
                return Int32(octets.read(into: UnsafeMutableRawBufferPointer(start: buffer, count: Int(count))))
            }, nil, context, nil, nil, Int32(bitPattern: options))
        guard let reader else {
            throw ImportDamage(.unreadable, expected: "memory for an XML reader", found: "none")
        }
        self.reader = reader
    }

    deinit { xmlFreeTextReader(reader) }

    /// The name of an attribute or element, which can be compared by its address.
    func name(_ text: String) throws(ImportDamage) -> UnsafePointer<UInt8> {
        guard let name = xmlTextReaderConstString(reader, text) else {
            throw ImportDamage(.unreadable, expected: "memory for an XML reader", found: "none")
        }
        return name
    }

    /// The next event; `nil` at the end of the document.
    ///
    /// - Throws: ``ImportDamage`` where the document is not well-formed, or ends too early, after everything before that.
    func next() throws(ImportDamage) -> Event? {
        if isEmptyElement {
            isEmptyElement = false
            isBegun = false
            return .end
        }
        while leftover == nil {
            let result = xmlTextReaderRead(reader)
            guard result == 1 else {
                guard result < 0 else { return nil }
                fault = damage()
                leftover = nodesBeforeFault().reversed()
                break
            }
            switch xmlTextReaderNodeType(reader) {
            case Int32(XML_READER_TYPE_ELEMENT.rawValue):
                node = xmlTextReaderCurrentNode(reader)
                depth = Int(xmlTextReaderDepth(reader))
                isEmptyElement = xmlTextReaderIsEmptyElement(reader) == 1
                isBegun = true
                return .begin
            case Int32(XML_READER_TYPE_END_ELEMENT.rawValue):
                node = xmlTextReaderCurrentNode(reader)
                depth = Int(xmlTextReaderDepth(reader))
                isBegun = false
                return .end
            case Int32(XML_READER_TYPE_DOCUMENT_TYPE.rawValue):
                // ``ExportOctets`` has blanked the only one that it knows. What it declares would be expanded in attributes.
                throw ImportDamage(
                    .entities, line: line, expected: "one document type, in UTF-8", found: "another one",
                    hint: "Apple Health writes no entities: this is not its export.")
            default: continue
            }
        }
        guard let next = leftover?.popLast() else {
            throw fault ?? ImportDamage(.damaged, line: line, expected: "well-formed XML", found: "something else")
        }
        (node, depth) = (next.node, next.depth)
        return next.event
    }

    /// Whole elements behind the last event. The parser reads some hundred octets at a time, and the reader gives nothing of
    /// those in which it meets a fault. They are looked for from where the reader stands: if it went on to a text, the node of
    /// the last event is freed.
    private func nodesBeforeFault() -> [Leftover] {
        guard let current = xmlTextReaderCurrentNode(reader) else { return [] }
        var found: [Leftover] = []
        /// Whether an element has ended: another has begun behind it, or its tag ends it.
        func isWhole(_ node: UnsafeMutablePointer<_xmlNode>) -> Bool {
            node.pointee.next != nil || node.pointee.extra & 1 != 0
        }
        func visit(_ first: UnsafeMutablePointer<_xmlNode>?, _ depth: Int) {
            var next = first
            while let node = next {
                next = node.pointee.next
                guard node.pointee.type == XML_ELEMENT_NODE else { continue }
                guard isWhole(node) else { return }
                found.append(Leftover(node: node, event: .begin, depth: depth))
                visit(node.pointee.children, depth + 1)
                found.append(Leftover(node: node, event: .end, depth: depth))
            }
        }
        var (last, depth) = (current, Int(xmlTextReaderDepth(reader)))
        if isBegun, current == node {
            visit(last.pointee.children, depth + 1)
            guard isWhole(last) else { return found }
            found.append(Leftover(node: last, event: .end, depth: depth))
        }
        while depth > 0 {
            visit(last.pointee.next, depth)
            guard let parent = last.pointee.parent, isWhole(parent) else { return found }
            depth -= 1
            found.append(Leftover(node: parent, event: .end, depth: depth))
            last = parent
        }
        return found
    }

    /// The name of the present element.
    var elementName: UnsafePointer<UInt8>? { node?.pointee.name }

    /// The attributes of the present element.
    var attributes: Attributes { Attributes(attribute: node?.pointee.properties) }

    /// The line that was read last.
    var line: Int { Int(xmlTextReaderGetParserLineNumber(reader)) }

    private func damage() -> ImportDamage {
        if let failure = octets.failure { return failure }
        guard let error = xmlGetLastError(), error.pointee.code != 0 else {
            return ImportDamage(.damaged, line: line, expected: "well-formed XML", found: "something else")
        }
        let words = error.pointee.message.map { String(cString: $0) } ?? ""
        let message = words.split(whereSeparator: \.isNewline).first.map(String.init) ?? "something else"
        let line = Int(error.pointee.line) > 0 ? Int(error.pointee.line) : line
        guard octets.isCut else {
            return ImportDamage(.damaged, line: line, expected: "well-formed XML", found: message)
        }
        return ImportDamage(
            .damaged, line: line, expected: "</HealthData>", found: "the end of the file",
            hint: "The file was cut. Export it again, and import that: what is stored already stays as it is.")
    }
}
